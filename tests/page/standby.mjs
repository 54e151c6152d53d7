// A node that stands by, and knows which one serves.

import assert from "node:assert/strict";

export default async function play({page, url, until, text, ok, tab, shots}) {
  await page.goto(url);
  await until("the standby says so", () => page.locator("#standby").isVisible());
  await until("the verdict says so", async () => /beta\.example stands by, up/.test(await text("#verdict")));
  assert.match(await text("#standby"), /This node stands by\.[\s\S]*Locks are on another node/);
  const link = page.locator("#standby-link");
  assert.equal(await link.innerText(), "server.example");
  assert.equal(await link.getAttribute("href"), `http://server.example:${new URL(url).port}/`);
  for (const name of ["waits", "locks", "clients", "losses"]) assert.ok(await page.locator(`#tab-${name}`).isHidden(), name);
  assert.ok(await page.locator("#tiles").isHidden());
  assert.doesNotMatch(await text("body"), /No lock is held|No client waits/);
  ok("no empty lists, and the way to the active node");
  await tab("cluster");
  await until("its nodes", async () => /server\.example[\s\S]*active[\s\S]*beta\.example[\s\S]*standby[\s\S]*this node/.test(await text("#cluster")));
  await shots("standby");
  ok("the nodes of the service");
}
