// Ten thousand locks: sorting and pages, and what a refresh costs.

import assert from "node:assert/strict";

const REFRESH_BYTES_MAX = 120000; // of all answers of one refresh: fifty rows of each list, not ten thousand

export default async function play({page, url, until, text, ok, note, shots, tab}) {
  const asked = new Map(); // how long each answer of a refresh was
  page.on("response", async answer => {
    if (answer.url().includes("/api/")) asked.set(answer.url(), (await answer.body().catch(() => "")).length);
  });
  const opened = Date.now();
  await page.goto(url);
  await until("the page is there", async () => await text("#locks-count") === "10,000");
  await tab("locks");
  await until("locks are shown", async () => await page.locator("#locks tbody tr").count() > 0);
  note(`10,000 locks: the page was there after ${Date.now() - opened} ms`);
  assert.equal(await page.locator("#locks tbody tr").count(), 50);
  assert.equal(await text("#locks-pager"), "«\n‹\n1–50 of 10,000\n›\n»");
  await until("one refresh is through", () => asked.size >= 3);
  const bytes = [...asked.values()].reduce((a, b) => a + b);
  note(`a refresh takes ${bytes} bytes`);
  assert.ok(bytes < REFRESH_BYTES_MAX, `a refresh takes ${bytes} bytes`);

  const files = () => page.locator("#locks tbody tr td:nth-child(3) .elided").allInnerTexts();
  const timed = async (what, act, done) => {
    const start = Date.now();
    await act();
    await until(what, done);
    note(`${what}: ${Date.now() - start} ms`);
  };
  const first = async name => (await files())[0] === name;
  await timed("sorted by file", () => page.click("th [data-sort=file]"), () => first("/export/data/00000"));
  await timed("the other way round", () => page.click("th [data-sort=file]"), () => first("/export/data/09999"));
  assert.equal(await page.locator("th:has([data-sort=file])").getAttribute("aria-sort"), "descending");
  await timed("the next page", () => page.click("#locks-pager [title='next page']"), () => first("/export/data/09949"));
  assert.match(await text("#locks-pager"), /51–100 of 10,000/);
  await timed("the last page", () => page.click("#locks-pager [title='last page']"), () => first("/export/data/00049"));
  assert.match(await text("#locks-pager"), /9,951–10,000 of 10,000/);
  assert.ok(await page.locator("#locks-pager [title='next page']").isDisabled());
  assert.deepEqual(await files(), [...await files()].sort().reverse());
  ok("sorting and pages");

  await timed("a search", () => page.fill("#search-text", "data/0123"), async () => await text("#locks-count") === "10 of 10,000");
  assert.ok(await first("/export/data/01239"));
  assert.ok(await page.locator("#locks-pager").isHidden());
  await page.fill("#search-text", "data/01");
  await until("a longer result", async () => /1–50 of 1,000/.test(await text("#locks-pager")));
  assert.equal(await text("#locks-count"), "1,000 of 10,000");
  await page.fill("#search-text", "");
  await until("all again", async () => await text("#locks-count") === "10,000");
  ok("n of m honours the search");

  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver(list => {
      for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({entryTypes: ["longtask"]});
  });
  await page.waitForTimeout(6500);
  note(`the longest task of the browser in three refreshes: ${Math.round(await page.evaluate(() => window.longest)) || "below 50"} ms`);
  await page.setViewportSize({width: 400, height: 860});
  await page.selectOption("#locks-tools .sort-choice", "-held");
  await until("sorted from the narrow page", async () => await page.locator("th:has([data-sort=held])").getAttribute("aria-sort") === "descending");
  await page.selectOption("#locks-tools .sort-choice", "-waiters");
  await until("waited ones first", async () => await page.locator("#locks .waited").count() === 2 &&
    await page.locator("#locks tbody tr").nth(1).locator(".waited").count() === 1);
  await shots("thousands");
  ok("1400 and 400 pixels, light and dark");
}
