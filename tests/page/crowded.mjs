// Fifty locks, long names, a long queue, several files that are waited for.

import assert from "node:assert/strict";

const LONG = "render-node-0042.cluster-b.building-7.engineering.example.com";
const PATH = "/export/projects/a-very-long-project-name/with/many/folders/inside/it/and-more/of-them/final-report.odt";

export default async function play({page, url, until, text, ok, tab, shots}) {
  await page.goto(url);
  await until("waits are drawn", async () => await page.locator(".wait-card").count() > 0);

  // render holds report and waits for build; node-09 waits for report: a chain, so one picture. node-01 to
  // node-03 hold parts of ledger and wait for build as other processes, which is no chain.
  const cards = page.locator(".wait-card"), first = cards.filter({hasText: "build.lock"});
  assert.equal(await cards.count(), 2);
  assert.match(await first.locator("h3").innerText(), /and 1 more file[\s\S]*23 waiting/);
  const chained = first.locator(".box", {hasText: "waits for build.lock"}).filter({hasText: "holds final-report.odt"});
  assert.match(await chained.innerText(), /render/);
  const left = async one => (await one.boundingBox()).x;
  const root = first.locator(".box", {hasText: "node-00.example"}), last = first.locator(".box", {hasText: "waits for final-report.odt"});
  assert.ok(await left(root) < await left(chained) && await left(chained) < await left(last), "a chain is read from its root");
  ok("a chain of waits is one picture, with its root on the left");

  assert.equal(await first.locator(".more").innerText(), "+18 more");
  await first.locator(".more").click();
  assert.equal(await first.locator(".box.waiter").count(), 23);
  await first.locator(".more").click();
  assert.equal(await first.locator(".box.waiter").count(), 5);
  ok("long queues fold and unfold");

  const ages = (await page.locator(".wait-card h3 .since").evaluateAll(all => all.map(one => -Number(one.dataset.since))));
  assert.deepEqual(ages, [...ages].sort((a, b) => b - a), "the longest wait is first");
  await page.fill("#search-text", "ledger");
  await until("a search in the waits", async () => await cards.count() === 1 && /ledger\.db/.test(await cards.innerText()));
  await page.fill("#search-text", "");
  await until("all waits", async () => await cards.count() === 2);
  ok("sorted by the longest wait, and searched");

  await shots("crowded", {fullPage: true, check: async width => {
    const lines = await first.locator(".lines").first().isVisible();
    if (width === 400) assert.ok(!lines, "lines on a narrow page");
    else {
      const right = Math.max(...await cards.evaluateAll(all => all.map(one => one.getBoundingClientRect().right)));
      assert.ok(lines && right > width * 0.9, `uses ${right} of ${width}`);
    }
  }});
  ok("the waits use the width, and are a list on a phone");

  await tab("locks");
  await until("locks are shown", async () => await text("#locks-count") === "50" && await page.locator("#locks tbody tr").count() > 40);

  // Selects what is in an element, as an operator does with the mouse: what a copy would have.
  const selected = element => element.evaluate(node => {
    getSelection().selectAllChildren(node);
    return getSelection().toString();
  });
  const name = page.locator("#locks .elided", {hasText: LONG}).first(), file = page.locator("#locks .elided", {hasText: PATH}).first();
  for (const [element, whole] of [[name, LONG], [file, PATH]]) {
    assert.equal(await element.getAttribute("title"), whole);
    assert.equal(await selected(element), whole);
  }
  const cut = element => element.locator(".start").evaluate(node => node.scrollWidth > node.clientWidth);
  await page.setViewportSize({width: 1000, height: 800});
  assert.ok(await cut(name), "not elided");
  const end = await name.evaluate(node => { // where the last letter is drawn
    const letters = document.createRange(), last = node.lastChild;
    letters.setStart(last, last.length - 1);
    letters.setEnd(last, last.length);
    return [letters.getBoundingClientRect().right, node.getBoundingClientRect().right];
  });
  assert.ok(end[0] <= end[1] + 1, `the end of a long name is cut off: ${end}`);
  await selected(name);
  await page.waitForTimeout(4500);
  assert.equal(await page.evaluate(() => getSelection().toString()), LONG, "a refresh took the selection away");
  await page.evaluate(() => getSelection().empty());
  ok("long names lose their middle, and are whole on hover and in a copy");

}
