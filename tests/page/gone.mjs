// The daemon dies, hangs and comes back under an open page.

import assert from "node:assert/strict";

export default async function play({page, url, now, until, text, ok, note, shot, complaints}) {
  await page.goto(url); // no request waits, so it opens with the locks
  await until("locks are shown", async () => /plan\.txt/.test(await text("#locks")));

  const lost = () => page.locator("#lost").isVisible();
  assert.ok(!await lost());
  const opacity = selector => page.evaluate(one => Number(getComputedStyle(document.querySelector(one)).opacity), selector);

  await now("kill");
  const start = Date.now();
  await until("the banner", lost);
  const took = Date.now() - start;
  note(`a daemon that died was noticed after ${took} ms`);
  assert.ok(took < 3000, `noticed after ${took} ms`);
  assert.match(await text("#lost"), /holdfastd does not answer.*What is shown is \d+ s old/);
  for (const part of ["header", "main", "footer"]) assert.ok(await opacity(part) < 0.6, part);
  assert.equal((await page.locator("#lost").boundingBox()).y, 0);
  assert.ok(await page.evaluate(() => document.querySelector("main").inert));
  const held = await text("#locks .since");
  await page.waitForTimeout(2200);
  assert.equal(await text("#locks .since"), held, "old figures go on");
  await shot("gone-1400-light");
  await page.setViewportSize({width: 400, height: 860});
  await page.emulateMedia({colorScheme: "dark"});
  await page.evaluate(() => scrollTo(0, 400));
  assert.equal((await page.locator("#lost").boundingBox()).y, 0, "the banner scrolls away");
  await shot("gone-400-dark");
  ok("a daemon that died: a red banner, everything else grey");

  await now("start");
  await until("the banner goes", async () => !await lost());
  assert.ok(await opacity("main") === 1 && !await page.evaluate(() => document.querySelector("main").inert));
  await until("the new daemon is shown", async () => (await text("#chips")).includes("epoch 2"));
  ok("back by itself");

  await now("hang");
  const stopped = Date.now();
  await until("the banner", lost);
  note(`a daemon that hangs was noticed after ${Date.now() - stopped} ms`);
  await now("go on");
  await until("the banner goes", async () => !await lost());
  ok("a daemon that hangs is noticed too");
  complaints.length = 0; // Chromium complains of each request that failed
}
