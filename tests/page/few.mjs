// A restart with grace, three clients, a handful of locks: what the page shows, and that it obeys.

import assert from "node:assert/strict";

const TOKEN = "the-token-of-this-page";

export default async function play({page, url, now, until, text, ok, shot, shots, complaints}) {
  await page.goto(url);
  await until("the state is shown", async () => (await text("#chips")).includes("epoch 2"));
  assert.match(await text("#chips"), /state 3/);
  assert.match(await text("#chips"), /store up/);
  assert.ok(await page.locator("#read-only").isHidden());
  ok("state and epoch");

  const left = async () => Number((await text("#grace-title")).match(/(\d+) s left/)[1]);
  const before = await left();
  assert.ok(before > 0 && before <= 90, `grace: ${before}`);
  assert.match(await text("#grace-detail"), /1 of 3 reclaimed/);
  await until("the countdown runs", async () => await left() < before);
  ok("grace counts down and counts reclaims");

  for (const name of ["alpha.example", "beta.example", "gamma.example"])
    assert.ok((await text("#clients")).includes(name), name);
  await until("notices are shown", async () => /delivered/.test(await text("#clients")));
  assert.match(await text("#clients"), /pending|failing/);
  ok("clients and their notices");

  assert.match(await text("#locks"), /plan\.txt/);
  const queue = await text("#locks .queue");
  assert.ok(queue.indexOf("beta.example") < queue.indexOf("gamma.example"), queue);
  assert.match(await text("#locks"), /not reclaimed/);
  ok("locks and the queue behind them");

  assert.equal(await page.locator(".wait-card").count(), 1);
  assert.match(await text(".wait-card h3"), /\/export\/projects\/plan\.txt/);
  assert.match(await text(".wait-card .holder"), /alpha\.example[\s\S]*exclusive, whole file/);
  assert.match((await page.locator(".wait-card .waiter").allInnerTexts()).join(), /beta\.example[\s\S]*bytes 0 to 99[\s\S]*gamma\.example[\s\S]*bytes 50 to 59/);
  assert.equal(await page.locator(".wait-card .edge").count(), 2);
  ok("which client waits for which, by file and range");

  await now("traffic");
  await until("figures move", async () => await page.locator(".spark .line").count() >= 6);
  ok("small graphs");

  await now("lock");
  await until("a new lock appears by itself", async () => (await text("#locks")).includes("late.txt"));
  ok("updates by itself");

  await now("hostile name");
  await until("the hostile name is text", async () => (await text("#clients")).includes("<img src=x onerror=alert(1)>"));
  assert.equal(await page.locator("main img").count(), 0);
  ok("names are only text");

  await shots("few", {fullPage: true});
  ok("1400 and 400 pixels, light and dark");

  for (const [field, word, sees, not] of [["file", "late", "late.txt", "plan.txt"], ["client", "192.0.2.1", "plan.txt", "late.txt"],
                                          ["owner", "77@gamma", "late.txt", "plan.txt"]]) {
    await page.selectOption("#search-field", field);
    await page.fill("#search-text", word);
    await until(`search ${field}`, async () => { const seen = await text("#locks"); return seen.includes(sees) && !seen.includes(not); });
  }
  await until("the count honours the search", async () => await text("#locks-count") === "1 of 5");
  await page.fill("#search-text", "no such owner");
  await until("nothing fits", async () => (await text("main")).includes("No lock fits the search."));
  assert.equal(await text("#locks-count"), "0 of 5");
  await page.fill("#search-text", "");
  await until("all again", async () => (await text("#locks")).includes("plan.txt"));
  assert.equal(await text("#locks-count"), "5");
  ok("search by file, client, owner");

  const row = page.locator("#locks tr", {hasText: "plan.txt"}).filter({hasText: "alpha.example"});
  await row.locator("button").click();
  await page.click("#confirm-no");
  await page.waitForTimeout(300);
  assert.match(await text("#locks"), /plan\.txt/);
  await row.locator("button").click();
  assert.match(await text("#confirm-text"), /alpha\.example \(192\.0\.2\.1\)/);
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
  await page.keyboard.press("Enter");
  await until("grace is over", async () => await page.locator("#grace").isHidden());
  ok("grace is ended, after asking; the token is not asked for twice");
}
