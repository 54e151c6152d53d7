// Drives the page in Debian's Chromium, for test_page.py, which plays the lock clients. A line
// "now: WORD" on standard output asks it to do something and to answer with a line when it is done;
// "ok: STORY" and "shot: FILE" tell it how far this has come. The first thing that is not as it should
// be ends it with an error.
//
// Usage: node drive.mjs URL FOLDER-FOR-SCREENSHOTS

import assert from "node:assert/strict";
import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import path from "node:path";

const require = createRequire(path.join(process.cwd(), "node_modules/"));
const {chromium} = require("playwright-core");
const [url, folder] = process.argv.slice(2);

const lines = createInterface({input: process.stdin})[Symbol.asyncIterator]();
async function now(word) {
  console.log(`now: ${word}`);
  assert.equal((await lines.next()).value, "done");
}

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({viewport: {width: 1240, height: 1000}, colorScheme: "light"});
const complaints = [];
page.on("console", message => { if (message.type() === "error") complaints.push(message.text()); });
page.on("pageerror", error => complaints.push(String(error)));
page.on("requestfailed", request => complaints.push(`failed: ${request.url()}`));
page.on("request", request => assert.ok(request.url().startsWith(url), `asks elsewhere: ${request.url()}`));

const text = selector => page.locator(selector).innerText();
async function until(what, condition) {
  const end = Date.now() + 15000;
  while (!await condition()) {
    assert.ok(Date.now() < end, `not so in time: ${what}\n${await page.locator("body").innerText()}`);
    await page.waitForTimeout(50);
  }
}
async function shot(name) {
  await page.screenshot({path: path.join(folder, `${name}.png`), fullPage: true});
  console.log(`shot: ${name}.png`);
}

await page.goto(url);
await until("the state is shown", async () => (await text("#chips")).includes("epoch 2"));
assert.match(await text("#chips"), /state 3/);
assert.match(await text("#chips"), /store up/);
console.log("ok: state and epoch");

const left = async () => Number((await text("#grace-title")).match(/(\d+) s left/)[1]);
const before = await left();
assert.ok(before > 0 && before <= 90, `grace: ${before}`);
assert.match(await text("#grace-detail"), /1 of 3 reclaimed/);
await until("the countdown runs", async () => await left() < before);
console.log("ok: grace counts down and counts reclaims");

for (const name of ["alpha.example", "beta.example", "gamma.example"])
  assert.ok((await text("#clients")).includes(name), name);
await until("notices are shown", async () => /delivered/.test(await text("#clients")));
assert.match(await text("#clients"), /pending|failing/);
console.log("ok: clients and their notices");

assert.match(await text("#locks"), /plan\.txt/);
const queue = await text("#locks .queue");
assert.ok(queue.indexOf("beta.example") < queue.indexOf("gamma.example"), queue);
assert.match(await text("#locks"), /not reclaimed/);
console.log("ok: locks and the queue behind them");

assert.equal(await page.locator("#graph g").count(), 3);
assert.equal(await page.locator("#graph .edge").count(), 2);
assert.equal(await page.locator("#graph .holder").count(), 1);
assert.match(await page.locator("#graph .holder").textContent(), /alpha\.example/);
console.log("ok: the picture of who waits for whom");

await now("traffic");
await until("figures move", async () => await page.locator(".spark .line").count() >= 6);
console.log("ok: small graphs");

await now("lock");
await until("a new lock appears by itself", async () => (await text("#locks")).includes("late.txt"));
console.log("ok: updates by itself");

await now("hostile name");
await until("the hostile name is text", async () => (await text("#clients")).includes("<img src=x onerror=alert(1)>"));
assert.equal(await page.locator("main img").count(), 0);
console.log("ok: names are only text");

await shot("light");
await page.emulateMedia({colorScheme: "dark"});
await shot("dark");
await page.setViewportSize({width: 390, height: 844});
assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "wider than a phone");
await shot("phone-dark");
await page.emulateMedia({colorScheme: "light"});
await shot("phone");
await page.setViewportSize({width: 1240, height: 1000});
console.log("ok: light, dark, and as wide as a phone");

for (const [field, word, sees, not] of [["file", "late", "late.txt", "plan.txt"], ["client", "192.0.2.1", "plan.txt", "late.txt"],
                                        ["owner", "77@gamma", "late.txt", "plan.txt"]]) {
  await page.selectOption("#search-field", field);
  await page.fill("#search-text", word);
  await until(`search ${field}`, async () => { const seen = await text("#locks"); return seen.includes(sees) && !seen.includes(not); });
}
await page.fill("#search-text", "no such owner");
await until("nothing fits", async () => (await text("main")).includes("No lock fits the search."));
await page.fill("#search-text", "");
await until("all again", async () => (await text("#locks")).includes("plan.txt"));
console.log("ok: search by file, client, owner");

const row = page.locator("#locks tr", {hasText: "plan.txt"}).filter({hasText: "alpha.example"});
await row.locator("button").click();
await page.click("#confirm button[value=no]");
await page.waitForTimeout(300);
assert.match(await text("#locks"), /plan\.txt/);
await row.locator("button").click();
assert.match(await text("#confirm-text"), /alpha\.example \(192\.0\.2\.1\)/);
await page.click("#confirm-yes");
await until("who was granted is told", async () => /Granted in turn: beta\.example/.test(await text("#toast")));
await until("the lock is gone", async () => await row.count() === 0);
console.log("ok: a lock is released, after asking");

await page.click("#grace-end");
await page.click("#confirm-yes");
await until("grace is over", async () => await page.locator("#grace").isHidden());
console.log("ok: grace is ended, after asking");

assert.deepEqual(complaints, []);
console.log("ok: no error in the console");
await browser.close();
process.exit(0); // the open standard input would keep it
