// The demonstration, as a newcomer sees it: the pictures of the README.

import assert from "node:assert/strict";

export default async function play({page, url, now, until, text, ok, shot, complaints}) {
  await page.setViewportSize({width: 1120, height: 760});
  await page.goto(url);
  await until("clients hold and wait", async () => await page.locator(".wait-card").count() >= 2);
  await until("small graphs have a shape", async () => (await page.locator(".spark .line").first().getAttribute("d") ?? "").split("L").length > 3);
  await shot("tour-1-living");
  ok("clients hold and wait");

  const reclaimed = async () => Number((await text("#grace-detail")).match(/^(\d+) of/)?.[1] ?? 0);
  await now("press Enter");
  await until("the daemon is gone", () => page.locator("#lost").isVisible());
  await shot("tour-2-gone");
  await until("locks are reclaimed", async () => await page.locator("#lost").isHidden() && await page.locator("#grace").isVisible() && await reclaimed() >= 3);
  assert.match(await text("#grace-title"), /Grace period: \d+ s left/);
  await shot("tour-3-grace");
  ok("killed and back: locks are reclaimed");

  await page.setViewportSize({width: 400, height: 760});
  await shot("tour-4-phone");
  assert.ok(complaints.every(words => /healthz|api|Failed to load/.test(words)), complaints.join());
  complaints.length = 0; // requests failed while it was down
}
