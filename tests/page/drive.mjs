// Drives the page in Debian's Chromium, for test_page.py, which plays the lock clients. A line
// "now: WORD" on standard output asks it to do something and to answer with a line when it is done;
// "ok: STORY", "note: TEXT" and "shot: FILE" tell it how far this has come. The first thing that is not
// as it should be ends it with an error.
//
// Usage: node drive.mjs SCENARIO URL FOLDER-FOR-SCREENSHOTS

import assert from "node:assert/strict";
import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import path from "node:path";

const require = createRequire(path.join(process.cwd(), "node_modules/"));
const {chromium} = require("playwright-core");
const [scenario, url, folder] = process.argv.slice(2), origin = new URL(url).origin;

const WIDE = {width: 1400, height: 1000}, PHONE = {width: 400, height: 860};

const lines = createInterface({input: process.stdin})[Symbol.asyncIterator]();
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP server.example 127.0.0.1"],
});
const page = await browser.newPage({viewport: WIDE, colorScheme: "light"});
const complaints = [];
page.on("console", message => { if (message.type() === "error") complaints.push(message.text()); });
page.on("pageerror", error => complaints.push(String(error)));
// The page gives a heartbeat up after 1.5 s, says that no daemon answers, and goes on when one does. On a busy machine that may happen
// in any story; those in which it must not happen, or must, look at what the page says.
const gaveUp = request => request.url() === `${origin}/healthz` && request.failure()?.errorText === "net::ERR_ABORTED";
page.on("requestfailed", request => { if (!gaveUp(request)) complaints.push(`failed: ${request.url()}`); });
page.on("request", request => assert.ok(request.url().startsWith(origin), `asks elsewhere: ${request.url()}`));

const tool = {
  page, url, complaints, WIDE, PHONE,
  text: selector => page.locator(selector).innerText(),

  async now(word) {
    console.log(`now: ${word}`);
    assert.equal((await lines.next()).value, "done");
  },

  // Chooses a view, and waits until its answer is drawn.
  async tab(name) {
    await page.click(`#tab-${name}`);
    await tool.until(`the tab ${name}`, () => page.locator(`#panel-${name}`).isVisible());
  },

  async until(what, condition) {
    const end = Date.now() + 15000;
    while (!await condition()) {
      assert.ok(Date.now() < end, `not so in time: ${what}\n${await page.locator("body").innerText()}`);
      await page.waitForTimeout(20);
    }
  },

  ok: story => console.log(`ok: ${story}`),
  note: text => console.log(`note: ${text}`),

  async shot(name, fullPage = false) {
    await page.screenshot({path: path.join(folder, `${name}.png`), fullPage});
    console.log(`shot: ${name}.png`);
  },

  // Wide and narrow, light and dark: nothing may stick out to the side. Runs a check at each width.
  async shots(name, {check = async () => {}, fullPage = false} = {}) {
    for (const [width, viewport] of [[1400, WIDE], [400, PHONE]]) {
      await page.setViewportSize(viewport);
      await page.evaluate(() => scrollTo(0, 0));
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `wider than ${width} pixels`);
      await tool.until("the chosen tab is in sight", () => page.evaluate(() => {
        const tab = document.querySelector("[role=tab][aria-selected=true]"), box = tab?.getBoundingClientRect();
        return !tab || tab.offsetParent === null || (box.left >= 0 && box.right <= innerWidth);
      }));
      await check(width);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({colorScheme});
        await tool.shot(`${name}-${width}-${colorScheme}`, fullPage);
      }
      await page.emulateMedia({colorScheme: "light"});
    }
    await page.setViewportSize(WIDE);
  },
};

const {default: play} = await import(`./${scenario}.mjs`);
await play(tool);
assert.deepEqual(complaints, []);
tool.ok("no error in the console");
await browser.close();
process.exit(0); // the open standard input would keep it
