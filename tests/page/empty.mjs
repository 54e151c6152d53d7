// A server that no client has used yet.

import assert from "node:assert/strict";

export default async function play({page, url, until, text, ok, tab, shots}) {
  await page.goto(url);
  await until("a verdict", async () => /Healthy, up \d+ s; no client waits\./.test(await text("#verdict")));
  assert.match(await text("#locks-empty"), /No lock is held\.[\s\S]*rpcinfo -p SERVER[\s\S]*100021[\s\S]*mount -t nfs -o vers=3[\s\S]*flock -x/);
  await shots("empty");
  await tab("waits");
  await until("waits", async () => /No client waits for a lock\.[\s\S]*flock -x[\s\S]*holdfastctl doctor/.test(await text("#waits-empty")));
  await tab("history");
  await until("an empty history is not taken for nothing locked", async () => /no entry yet; locks and waits shorter than history\.longer_than/.test(await text("#history-empty")));
  ok("what to try");
}
