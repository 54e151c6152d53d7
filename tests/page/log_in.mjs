// Files are hidden until the token is typed; it is sent once, and not again when the daemon is gone and back.

import assert from "node:assert/strict";

const TOKEN = "the-token-of-this-page";

export default async function play({page, url, now, until, text, ok, tab, complaints}) {
  const withToken = [], withSession = [];
  page.on("request", request => {
    const sent = request.headers().authorization ?? "";
    if (sent.includes(TOKEN)) withToken.push(`${request.method()} ${new URL(request.url()).pathname}`);
    else if (sent) withSession.push(request.url());
  });
  await page.goto(url);
  await until("waiters stand with the lock of their file", async () => await page.locator(".wait-card").count() === 1);
  assert.match(await text(".wait-card"), /alpha\.example[\s\S]*beta\.example/);
  assert.doesNotMatch(await text("main"), /plan\.txt/);
  await tab("locks");
  await until("locks are shown", async () => /alpha\.example/.test(await text("#locks")));
  assert.doesNotMatch(await text("main"), /plan\.txt/);
  await page.fill("#search-text", "plan");
  await until("a search finds no file", async () => /No lock fits the search/.test(await text("main")));
  await page.fill("#search-text", "");
  await until("locks are shown again", async () => /alpha\.example/.test(await text("#locks")));
  assert.match(await text("#files-hidden"), /The files of locks are hidden/);
  ok("files are hidden");

  await page.click("#log-in");
  await page.fill("#confirm-token", TOKEN);
  await page.keyboard.press("Enter");
  await until("files are shown", async () => /plan\.txt/.test(await text("#locks")));
  assert.ok(await page.locator("#files-hidden").isHidden());
  ok("the token shows them");

  await page.waitForTimeout(2500);
  await now("kill");
  await until("the banner", () => page.locator("#lost").isVisible());
  await now("start");
  await until("files are hidden again", async () => await page.locator("#lost").isHidden() && await page.locator("#files-hidden").isVisible());
  await page.waitForTimeout(2500);
  assert.deepEqual(withToken, ["POST /api/v1/session"]);
  assert.ok(withSession.length > 0);
  assert.equal(await page.evaluate(() => JSON.stringify({...sessionStorage, ...localStorage})), "{}");
  ok("the token was sent once, the session is forgotten with the daemon");
  complaints.length = 0; // requests failed while it was down
}
