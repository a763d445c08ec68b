/** Makes `docs/dashboard.png`: the dashboard of a service whose orders come in waves. With `--all`, also in dark and narrow, for those who change the page. */
import { join } from "node:path";

import { chromium } from "playwright-core";

import { enqueueMany } from "../../src/index.js";
import { startAzurite } from "../../src/testing.js";
import { findChromium } from "../browser/chromium.js";
import { fillAccount } from "./account.js";
import { openDashboard } from "./open-dashboard.js";

const executablePath = findChromium();
if (executablePath === undefined) throw new Error("Chromium is not installed (Debian: apt-get install chromium)");
const docs = join(import.meta.dirname, "../../docs");
const all = process.argv[2] === "--all" ? (process.argv[3] ?? ".") : undefined;

await using azurite = await startAzurite();
const account = await fillAccount(azurite.connectionString, "orders");
const dashboard = await openDashboard(azurite.connectionString, "-c", "locks", "--election", "scheduler", "--queue", "orders", "--table", "orders", "--interval", "5", "--allow-actions");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 1_280, height: 800 }, deviceScaleFactor: 1, colorScheme: "light" });
  await page.goto(dashboard.url);
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  // Waves of orders, and a consumer that is a little too slow for them.
  for (let second = 0; second < 62; second++) {
    const orders = Math.round(4 + 4 * Math.sin(second / 5));
    await enqueueMany(account.queue, Array.from({ length: orders }, () => ({ payload: { order: second } })));
    const { receivedMessageItems } = await account.queue.receiveMessages({ numberOfMessages: 4, visibilityTimeout: 3 });
    for (const { messageId, popReceipt } of receivedMessageItems.slice(0, 3)) await account.queue.deleteMessage(messageId, popReceipt);
    await page.waitForTimeout(1_000);
  }
  await page.screenshot({ path: join(docs, "dashboard.png"), fullPage: true });
  if (all !== undefined) {
    await page.getByLabel("Colours").selectOption("dark");
    await page.screenshot({ path: join(all, "dark.png"), fullPage: true });
    await page.getByRole("button", { name: "Break the lock tenant/contoso/migration" }).click();
    await page.getByText("worker-2/311/9be0").last().waitFor();
    await page.screenshot({ path: join(all, "dialog.png") });
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.waitForTimeout(1_000); // until it is drawn again
    await page.screenshot({ path: join(all, "narrow.png"), fullPage: true });
  }
} finally {
  await browser.close();
  await dashboard.stop();
  await account.release();
}
