// Where changes are refused, the page has no buttons for them and says how they can be made.

import assert from "node:assert/strict";

export default async function play({page, url, until, text, ok, shot}) {
  await page.goto(url);
  await until("locks are shown", async () => /plan\.txt/.test(await text("#locks")));
  assert.equal(await text("#read-only"), "Read only: set admin.token_file to release locks here, or use holdfastctl.");
  assert.equal(await page.locator("#locks .act button, #clients .act button").count(), 0);
  assert.match(await text("#chips"), /read only/);
  await shot("read-only");
  ok("no button, and a hint");
}
