// What is wrong stands at the top, wide and narrow, until it is over or acknowledged.

import assert from "node:assert/strict";

export default async function play({page, url, until, text, ok, now, tab, shots}) {
  await page.goto(url);
  await until("the loss is shown", async () => /2 locks of 1 client lost/.test(await text("#verdict")));
  assert.match(await text("#verdict"), /Limit locks_per_client refused 1 request\b.*alpha\.example/s);
  await shots("troubles");
  ok("a loss, and a limit with its client");
  await now("stop rpcbind");
  await until("rpcbind is missed", async () => /New clients do not find this server\. Next: holdfastctl doctor.*systemctl start rpcbind/s.test(await text("#verdict")));
  await now("start rpcbind");
  await until("rpcbind is back", async () => !/do not find/.test(await text("#verdict")));
  ok("an rpcbind that is gone, until it is back");
  assert.match(await text("#verdict"), /2 locks of 1 client lost after a restart\. Next: holdfastctl losses/);
  await tab("losses");
  await until("the loss has its client and its cause", async () => /alpha\.example[\s\S]*2[\s\S]*did not reclaim/.test(await text("#losses")));
  await page.click("#losses-ack");
  await until("the question", () => page.locator("#confirm").isVisible());
  await page.fill("#confirm-token", "the-token-of-this-page");
  await page.keyboard.press("Enter");
  await until("the loss is gone", async () => !/lost/.test(await page.locator("#verdict").textContent()));
  await until("its table is empty", () => page.locator("#losses-empty").isVisible());
  ok("a loss is acknowledged in its tab, and gone");
}
