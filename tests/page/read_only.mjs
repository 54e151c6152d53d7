// Where changes are refused, the page has no buttons for them and says how they can be made.

import assert from "node:assert/strict";

export default async function play({page, url, until, text, ok, shot}) {
  await page.goto(url);
  await until("locks are shown", async () => /alpha\.example/.test(await text("#locks")));
  assert.doesNotMatch(await text("#locks"), /plan\.txt/);
  assert.match(await text("#files-hidden"), /set admin\.read_token_file, or open this page by holdfastctl page/);
  assert.ok(await page.locator("#log-in").isHidden());
  assert.match(await text("#read-only"), /^Read only: set admin\.token_file to release locks here, or use holdfastctl;/);
  assert.equal(await page.locator("#locks .act button, #clients .act button").count(), 0);
  assert.match(await text("#chips"), /read only/);
  await shot("read-only");
  ok("no button, and a hint");
}
