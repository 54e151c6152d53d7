// A restart with grace, three clients, a handful of locks: what the page shows, and that it obeys.

import assert from "node:assert/strict";

const TOKEN = "the-token-of-this-page";

export default async function play({page, url, now, until, text, ok, shot, shots, tab, complaints}) {
  await page.goto(url);
  await until("the state is shown", async () => (await text("#chips")).includes("epoch 2"));
  assert.match(await text("#chips"), /state 3/);
  assert.match(await text("#chips"), /store up/);
  assert.ok(await page.locator("#read-only").isHidden());
  ok("state and epoch");

  const left = async () => Number((await text("#grace-title")).match(/(\d+) s left/)[1]);
  await until("grace is shown", () => page.locator("#grace").isVisible());
  const before = await left();
  assert.ok(before > 0 && before <= 90, `grace: ${before}`);
  assert.match(await text("#grace-detail"), /1 of 3 reclaimed/);
  await until("the countdown runs", async () => await left() < before);
  ok("grace counts down and counts reclaims");

  // Requests wait, so the page opens with them.
  await until("waits are drawn", async () => await page.locator(".wait-card").count() === 1);
  assert.match(await text(".wait-card h3"), /\/export\/projects\/plan\.txt[\s\S]*2 waiting, longest/);
  assert.match(await text(".wait-card .holder"), /alpha\.example[\s\S]*holds plan\.txt \d+ s · exclusive, whole file/);
  assert.match((await page.locator(".wait-card .waiter").allInnerTexts()).join(), /beta\.example[\s\S]*bytes 0 to 99[\s\S]*gamma\.example[\s\S]*bytes 50 to 59/);
  assert.equal(await page.locator(".wait-card .edge").count(), 2);
  assert.match(page.url(), /#tab=waits/);
  ok("which client waits for which, by file and range");

  // beta's host was told of the restart; alpha's has no monitor, so the verdict may name that first.
  assert.match(await text("#verdict"), /Clients reclaim their locks, up \d+ s; longest wait \d+ s: beta\.example for plan\.txt\.|could not be told of our restart\. Next: holdfastctl check/);
  ok("a verdict stands on top");

  await tab("clients");
  for (const name of ["alpha.example", "beta.example", "gamma.example"])
    await until(name, async () => (await text("#clients")).includes(name));
  await until("notices are shown", async () => /delivered/.test(await text("#clients")));
  assert.match(await text("#clients"), /pending|failing/);
  await until("the verdict names the client that cannot be told", async () => /could not be told.*Next: holdfastctl check alpha\.example/s.test(await text("#verdict")));
  ok("clients and their notices");

  await tab("locks");
  await until("locks are shown", async () => /plan\.txt/.test(await text("#locks")));
  assert.match(await text("#locks"), /not reclaimed/);
  assert.equal(await page.locator("#locks ol").count(), 0, "queues stand in the tab Waits only");
  await page.locator("#locks tr", {hasText: "plan.txt"}).filter({hasText: "alpha.example"}).locator(".waited .link").click();
  await until("the number of waiters leads to them", () => page.locator("#panel-waits").isVisible());
  assert.match(page.url(), /search=.*plan\.txt/);
  await page.fill("#search-text", "");
  ok("locks, and the way to their queues");

  await now("traffic");
  await until("figures move", async () => await page.locator(".spark .line").count() >= 6);
  assert.match((await page.locator(".tile .span").allInnerTexts()).join(), /last \d+ s/);
  ok("small graphs say how much time they cover");

  await tab("locks");
  await now("lock");
  await until("a new lock appears by itself", async () => (await text("#locks")).includes("late.txt"));
  ok("updates by itself");

  await now("hostile name");
  await tab("clients");
  await until("the hostile name is text", async () => (await text("#clients")).includes("<img src=x onerror=alert(1)>"));
  assert.equal(await page.locator("main img").count(), 0);
  ok("names are only text");

  for (const name of ["waits", "locks", "clients", "history"]) {
    await tab(name);
    await page.waitForTimeout(300);
    await shots(`few-${name}`, {fullPage: true});
  }
  ok("1400 and 400 pixels, light and dark");

  await tab("locks");
  for (const [word, sees, not] of [["late", "late.txt", "plan.txt"], ["192.0.2.1", "plan.txt", "late.txt"], ["77@gamma", "late.txt", "plan.txt"]]) {
    await page.fill("#search-text", word);
    await until(`search ${word}`, async () => { const seen = await text("#locks"); return seen.includes(sees) && !seen.includes(not); });
  }
  await until("the count honours the search", async () => await text("#locks-count") === "1 of 5");
  assert.match(page.url(), /tab=locks&search=77%40gamma/);
  await page.reload();
  await until("the address keeps view and search", async () => await text("#locks-count") === "1 of 5");
  await page.fill("#search-text", "no such owner");
  await until("nothing fits", async () => (await text("main")).includes("No lock fits the search."));
  assert.equal(await text("#locks-count"), "0 of 5");
  await page.fill("#search-text", "");
  await until("all again", async () => (await text("#locks")).includes("plan.txt"));
  await until("their count", async () => await text("#locks-count") === "5");
  ok("one search over files, clients and owners, kept in the address");

  const row = page.locator("#locks tr", {hasText: "plan.txt"}).filter({hasText: "alpha.example"});
  await row.locator("td .link").first().click();
  await until("the drawer", async () => /Granted in turn: beta\.example \(exclusive, bytes 0 to 99\)/.test(await text("#drawer")));
  assert.match(await text("#drawer"), /last heard/);
  assert.match(await text("#drawer"), /beta\.example[\s\S]*gamma\.example/);
  await shot("drawer");
  const asked = [];
  const note = request => asked.push(new URL(request.url()).pathname + new URL(request.url()).search);
  page.on("request", note);
  await until("three refreshes", () => asked.filter(one => one.endsWith("/status")).length > 3);
  page.off("request", note);
  const refreshes = asked.join(" ").split("/status").slice(1, -1);
  for (const one of refreshes) assert.equal(one.split("/waiters?").length, 2, `a refresh asks for the waiters once: ${one}`);
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#drawer").isHidden());
  ok("a lock in its drawer: its queue, and who would be granted");

  await row.locator(".act button").click();
  await until("the question", () => page.locator("#confirm").isVisible());
  await page.click("#confirm-no");
  await page.waitForTimeout(300);
  assert.match(await text("#locks"), /plan\.txt/);
  await row.locator(".act button").click();
  await until("the question again", () => page.locator("#confirm").isVisible());
  assert.match(await text("#confirm-text"), /alpha\.example \(192\.0\.2\.1\)[\s\S]*Granted in turn: beta\.example/);
  await page.fill("#confirm-token", "not-the-token-at-all");
  await page.keyboard.press("Enter");
  await until("a wrong token is told", async () => /does not take this token/.test(await text("#confirm-problem")));
  assert.ok(complaints.pop().includes("401"));
  await shot("dialog");
  await page.fill("#confirm-token", TOKEN);
  await page.keyboard.press("Enter");
  await until("the granted client is named", async () => /Granted in turn: beta\.example/.test(await text("#toast")));
  await until("the lock is gone", async () => await row.count() === 0);
  ok("a lock is released, after asking; Enter sends the token");

  await page.waitForTimeout(2500); // the next status knows that the token is right
  await page.click("#grace-end");
  assert.ok(await page.locator("#confirm-token").isHidden(), "the token is asked for again");
  assert.equal(await page.evaluate(() => document.activeElement.id), "confirm-no", "Cancel has the focus");
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("#confirm").isHidden() && await page.locator("#grace").isVisible(), "Enter on Cancel ended grace");
  await page.click("#grace-end");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await until("grace is over", async () => await page.locator("#grace").isHidden());
  ok("grace is ended, after asking; Cancel has the focus; the token is not asked for twice");

  await tab("history");
  await until("what the operator did is in the history", async () => /alpha\.example/.test(await text("#history")));
  ok("the history");

  // By keyboard alone: tabs by arrow keys, a row opened by Enter, the drawer closed by Escape, and the focus back.
  await page.locator("#tab-history").focus();
  await page.keyboard.press("Home");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-waits");
  await page.keyboard.press("ArrowRight");
  await until("locks by keyboard", async () => await page.locator("#panel-locks").isVisible() && await page.locator("#locks tbody tr").count() > 0);
  for (let i = 0; i < 30 && !await page.evaluate(() => document.activeElement.matches("#locks td .link")); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await until("the drawer by keyboard", async () => /last heard/.test(await text("#drawer")));
  await page.keyboard.press("Escape");
  assert.ok(await page.evaluate(() => document.activeElement.matches("#locks td .link")), "the focus is back");
  ok("by keyboard alone");

  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, a, table, nav, dialog, progress")]
    .filter(one => !one.closest("[hidden]") && !(one.ariaLabel || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.title || one.textContent.trim() || one.labels?.length))
    .map(one => one.outerHTML.slice(0, 80)));
  assert.deepEqual(nameless, []);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({colorScheme});
    assert.deepEqual(await page.evaluate(weakContrasts), [], colorScheme);
  }
  ok("everything has a name, and texts a contrast of 4.5");
}

// In the browser: texts whose contrast with what lies behind them is below 4.5 (WCAG 2, level AA).
function weakContrasts() {
  const parse = color => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (let at = one; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !one.checkVisibility() || one.disabled) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${one.className || one.tagName}: ${one.textContent.trim().slice(0, 30)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return found;
}
