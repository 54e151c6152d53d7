// Fifty locks, long names, a long queue, several files that are waited for.

import assert from "node:assert/strict";

const LONG = "render-node-0042.cluster-b.building-7.engineering.example.com";
const PATH = "/export/projects/a-very-long-project-name/with/many/folders/inside/it/and-more/of-them/final-report.odt";

export default async function play({page, url, until, text, ok, shots}) {
  await page.goto(url);
  await until("locks are shown", async () => await text("#locks-count") === "50");

  const cards = page.locator(".wait-card"), first = cards.first();
  assert.equal(await cards.count(), 3);
  assert.match(await first.locator("h3").innerText(), /build\.lock[\s\S]*22 waiting/);
  assert.equal(await first.locator(".waiter").count(), 3);
  assert.equal(await first.locator(".more").innerText(), "+19 more");
  await first.locator(".more").click();
  assert.equal(await first.locator(".waiter").count(), 22);
  await first.locator(".more").click();
  assert.equal(await first.locator(".waiter").count(), 3);
  assert.match(await page.locator(".wait-card .holder", {hasText: "waits for"}).innerText(), /render[\s\S]*waits for build\.lock/);
  ok("a card for each file; long queues fold and unfold");

  const queue = page.locator("#locks .queue").first();
  assert.equal(await queue.locator("li").count(), 3);
  await queue.locator(".more").click();
  assert.equal(await page.locator("#locks .queue").first().locator("li").count(), 22);
  await page.locator("#locks .queue").first().locator(".more").click();
  ok("so do queues in the table");

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

  await shots("crowded", {check: async width => {
    const waits = await page.locator("#waits-section").boundingBox(), table = await page.locator("#locks").boundingBox();
    const view = page.viewportSize();
    assert.ok(waits.height < view.height / 2, `at ${width} the waits are ${waits.height} high`);
    assert.ok(table.y < view.height, `at ${width} the table begins at ${table.y}`);
    const card = await first.boundingBox(), lines = await first.locator(".lines").isVisible();
    if (width === 400) {
      assert.ok(!lines, "lines on a narrow page");
      assert.match(await first.evaluate(node => getComputedStyle(node.querySelector(".waiters"), "::before").content), /waiting/);
    } else {
      const right = Math.max(...await cards.evaluateAll(all => all.map(one => one.getBoundingClientRect().right)));
      assert.ok(lines && right > width * 0.9 && card.width > width * 0.3, `uses ${right} of ${width}`);
    }
  }});
  ok("the waits use the width, are a list on a phone, and leave room for the table");
}
