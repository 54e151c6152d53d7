// What is wrong stands at the top, wide and narrow, until it is over or acknowledged.

import assert from "node:assert/strict";

export default async function play({page, url, until, text, ok, now, shots}) {
  await page.goto(url);
  await until("the loss is shown", async () => /2 locks of 1 client lost/.test(await text("#troubles")));
  assert.match(await text("#troubles"), /Limit locks_per_client refused 1 request\b.*alpha\.example/s);
  await shots("troubles");
  ok("a loss, and a limit with its client");
  await now("stop rpcbind");
  await until("rpcbind is missed", async () => /New clients do not find this server.*systemctl start rpcbind/s.test(await text("#troubles")));
  await now("start rpcbind");
  await until("rpcbind is back", async () => !/do not find/.test(await text("#troubles")));
  ok("an rpcbind that is gone, until it is back");
  await now("acknowledge");
  await until("the loss is gone", async () => !/lost/.test(await text("#troubles")));
  ok("an acknowledged loss is gone");
}
