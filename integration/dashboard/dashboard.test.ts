import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

import { chromium, type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { BlobLocks, enqueueMany } from "../../src/index.js";
import { JobStore } from "../../src/schedule/job-store.js";
import { startAzurite } from "../../src/testing.js";
import { findChromium } from "../browser/chromium.js";
import { fillAccount, sendPoison, type DashboardAccount } from "./account.js";
import { openDashboard, type RunningDashboard } from "./open-dashboard.js";

const executablePath = findChromium();

test("the command ends on Ctrl-C, and its server with it", async () => {
  const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", main, "dashboard", "-c", "locks"], { env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: "UseDevelopmentStorage=true" }, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = new Promise((resolve) => child.on("close", (code, signal) => resolve(code ?? signal)));
  const url = await new Promise<string>((resolve) => {
    let printed = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const found = /http:\S+(?=\n)/.exec((printed += text));
      if (found) resolve(found[0]);
    });
  });
  expect((await fetch(url)).status).toBe(200);
  child.kill("SIGINT");
  expect(await ended).toBe(0);
  await expect(fetch(url)).rejects.toThrow();
});

describe.skipIf(executablePath === undefined)("the dashboard in Chromium", () => {
  // Whatever was started before something failed is stopped as well.
  const cleanups: (() => Promise<unknown>)[] = [];
  let connectionString: string;
  let account: DashboardAccount;
  let browser: Browser;

  beforeAll(async () => {
    const azurite = await startAzurite();
    cleanups.push(() => azurite.stop());
    ({ connectionString } = azurite);
    account = await fillAccount(connectionString, "orders");
    cleanups.push(() => account.release());
    // Its sandbox does not work for root, which is who runs the tests in a container; the page is our own.
    browser = await chromium.launch({ executablePath: executablePath!, args: ["--no-sandbox"] });
    cleanups.push(() => browser.close());
  });
  afterAll(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  /** The page, once it has shown something. What it must never do fails the test: run a script of others, violate its policy, load something from elsewhere. */
  async function open(...args: string[]): Promise<{ readonly page: Page; readonly dashboard: RunningDashboard }> {
    const dashboard = await openDashboard(connectionString, "-c", "locks", "--election", "scheduler", "--queue", "orders", "--table", "orders", "--interval", "1", ...args);
    const page = await browser.newPage();
    const wrong: string[] = [];
    page.on("dialog", (dialog) => {
      wrong.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("pageerror", (error) => wrong.push(String(error)));
    page.on("console", (message) => {
      // What the server has refused, as the test wants.
      if (message.type() === "error" && !/status of 40[39]/.test(message.text())) wrong.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(dashboard.url)) wrong.push(`request: ${request.url()}`);
    });
    await page.exposeFunction("onViolation", (directive: string) => wrong.push(`violates ${directive}`));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => (globalThis as unknown as { onViolation: (directive: string) => void }).onViolation(effectiveDirective));
    });
    onTestFinished(async () => {
      await page.close();
      expect(await dashboard.stop()).toBe(0);
      expect(wrong).toEqual([]);
    });
    await page.goto(dashboard.url);
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    return { page, dashboard };
  }

  const textOf = async (page: Page, selector: string): Promise<string> => (await page.locator(selector).allInnerTexts()).join("\n");

  test("shows what is stored", async () => {
    const { page } = await open();
    const lock = await new BlobLocks(account.container).inspect("tenant/contoso/migration");
    const row = page.getByRole("row", { name: "tenant/contoso/migration" });
    expect(await row.innerText()).toMatch(new RegExp(`held\\s+worker-2/311/9be0\\s+\\d+ min.*\\s+${lock.epoch}\\s+step 3 of 7: copying invoices`));
    const locks = await textOf(page, "table[class], .section:has(> h2#section-locks)");
    expect(locks).toContain("4 held of 5");
    expect(locks).toContain('table orders, partition "eu"');
    expect(locks).not.toContain("invoice-run");
    await page.getByLabel("Show locks that are free as well").check();
    await page.getByRole("row", { name: "invoice-run" }).waitFor();
    expect(await page.getByRole("listitem").filter({ hasText: "payment-api" }).innerText()).toContain("3 of 5 slots");
    expect(await page.getByRole("listitem").filter({ hasText: "catalogue" }).innerText()).toMatch(/read\s+reader\s+worker-1[^]*reader\s+worker-3/);
    expect(await page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "scheduler" }) }).innerText()).toMatch(/led[^]*worker-1\/118\/41aa[^]*3 d/);
    expect(await textOf(page, ".queues")).toMatch(/orders\s+2 poison\s+Messages\s+12\s+In flight\s+0\s+Oldest\s+\d+/);
    expect(await page.getByRole("img", { name: /Length over the last .*: now 12, at most 12/ }).count()).toBe(1);
    expect(await page.getByRole("img", { name: /sync-prices: 1\d runs in the last 1 h, 2 failed/ }).count()).toBe(1);
    expect(await textOf(page, ".job")).toMatch(/rebuild-search\s+running\s+last run failed/);
    expect(await textOf(page, ".columns")).toMatch(/Completed\s+38\s+Claimed\s+3\s+Released\s+1\s+Outbox\s+2/);
    expect(await textOf(page, ".cost")).toMatch(/^[1-9]\d* requests\/min$/);
  });

  test("follows what changes, and asks nothing while it is paused", async () => {
    const { page } = await open();
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("paused", { exact: true }).waitFor();
    let requests = 0;
    page.on("request", () => requests++);
    await enqueueMany(account.queue, [1, 2, 3].map((payload) => ({ payload })));
    await page.waitForTimeout(1_500);
    expect(requests).toBe(0);
    await page.getByRole("button", { name: "Go on" }).click();
    await page.locator(".queues dd", { hasText: /^15$/ }).waitFor();
  });

  test("keeps payloads to itself until it is asked for one", async () => {
    const { page, dashboard } = await open();
    expect(await (await fetch(`${dashboard.url}snapshot`)).text()).not.toContain("4111");
    expect(await page.content()).not.toContain("4111");
    await page.getByRole("button", { name: "Show the payload of order-4688" }).press("Enter");
    await page.getByText('"card": "4111 1111 1111 1111"').waitFor();
    await page.getByRole("button", { name: "Hide the payload of order-4688" }).click();
    expect(await page.content()).not.toContain("4111");
  });

  test("is read-only unless the command allows more: the server refuses, not only the page", async () => {
    const { page } = await open();
    expect(await page.getByRole("button", { name: /^(Break|Delete|Move|Run)/ }).count()).toBe(0);
    const status = await page.evaluate(async () => (await fetch("actions", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })).status);
    expect(status).toBe(403);
  });

  test("breaks the lock of the holder that it has shown, and of no later one", async () => {
    const { page } = await open("--allow-actions");
    const locks = new BlobLocks(account.container, { holder: "first" });
    const first = await locks.acquire("contended");
    const dialog = page.getByRole("dialog");
    const ask = (): Promise<void> => page.getByRole("button", { name: "Break the lock contended" }).click();
    await ask();
    await dialog.getByText(String(first.epoch)).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await ask();
    await dialog.getByText(String(first.epoch)).waitFor();
    await first.release();
    const second = await new BlobLocks(account.container, { holder: "second" }).acquire("contended");
    await dialog.getByRole("button", { name: "Break the lock" }).click();
    await dialog.getByText("Nothing was changed").waitFor();
    expect(await locks.inspect("contended")).toMatchObject({ state: "leased", epoch: second.epoch });
    await dialog.getByRole("button", { name: "Close" }).click();
    await ask();
    await dialog.getByText("second").waitFor();
    await dialog.getByRole("button", { name: "Break the lock" }).click();
    await dialog.getByText("was broken").waitFor();
    expect(await locks.inspect("contended")).toMatchObject({ state: "broken" });
    await second.release().catch(() => undefined);
  });

  test("moves and deletes the poison message that it has shown, and triggers a job", async () => {
    const { page } = await open("--allow-actions");
    const dialog = page.getByRole("dialog");
    const answer = async (button: string, verb: string, outcome: RegExp): Promise<void> => {
      await page.getByRole("button", { name: button, exact: true }).click();
      await dialog.getByRole("button", { name: verb }).click();
      await dialog.getByText(outcome).waitFor();
      await dialog.getByRole("button", { name: "Close" }).click();
    };
    const poisonKeys = async (): Promise<unknown[]> => (await account.poisonQueue.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map(({ messageText }) => (JSON.parse(messageText) as { key: unknown }).key);
    await sendPoison(account.poisonQueue, { key: "to-delete", payload: 1, reason: "r" });
    await sendPoison(account.poisonQueue, { key: "to-move", payload: 2, reason: "r" });
    const before = await poisonKeys();
    await answer("Delete to-delete", "Delete it", /was deleted/);
    await answer("Move to-move back to orders", "Move it back", /was moved/);
    expect((await poisonKeys()).toSorted()).toEqual(before.filter((key) => key !== "to-delete" && key !== "to-move").toSorted());
    const { peekedMessageItems } = await account.queue.peekMessages({ numberOfMessages: 32 });
    expect(peekedMessageItems.filter(({ messageText }) => messageText.includes('"to-move"'))).toHaveLength(1);
    await answer("Run the job purge-inbox now", "Run it", /was triggered/);
    const store = new JobStore(account.table, "default");
    expect(store.stateOf((await store.look({})).get("purge-inbox")!).requests).toMatchObject([{ key: expect.stringMatching(/^dashboard-/) as string }]);
  });

  test("leaves a poison message alone that has changed since it was shown, and gives back what it has received", async () => {
    const { page } = await open("--allow-actions");
    const dialog = page.getByRole("dialog");
    await sendPoison(account.poisonQueue, { key: "changing", payload: 1, reason: "r" });
    const texts = async (): Promise<string[]> => (await account.poisonQueue.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map(({ messageText }) => messageText).toSorted();
    for (const [button, verb] of [["Delete changing", "Delete it"], ["Move changing back to orders", "Move it back"]] as const) {
      await page.getByRole("button", { name: button, exact: true }).click();
      const { receivedMessageItems } = await account.poisonQueue.receiveMessages({ numberOfMessages: 32, visibilityTimeout: 30 });
      for (const { messageId, popReceipt, messageText } of receivedMessageItems) {
        const changed = messageText.includes('"changing"') ? messageText.replace('"body":', '"body":1') : undefined;
        await account.poisonQueue.updateMessage(messageId, popReceipt, changed, 0);
      }
      const before = await texts();
      await dialog.getByRole("button", { name: verb }).click();
      await dialog.getByText("Nothing was changed").waitFor();
      expect(await texts()).toEqual(before);
      await dialog.getByRole("button", { name: "Close" }).click();
    }
  });

  test("shows hostile names and payloads as text", async () => {
    const hostile = `</td><script>alert(1)</script><img src=x onerror="alert(2)"><style>*{display:none}</style>\u202egnp.exe`;
    const held = await new BlobLocks(account.container, { holder: hostile }).acquire(hostile, { data: hostile });
    await sendPoison(account.poisonQueue, { key: hostile, payload: { hostile, "__proto__": hostile }, reason: hostile, error: hostile });
    const { page } = await open("--allow-actions");
    const visible = hostile.replace("\u202e", " ");
    await page.getByRole("row", { name: visible }).first().waitFor();
    await page.getByRole("button", { name: `Show the payload of ${visible}` }).click();
    await page.locator("pre", { hasText: "gnp.exe" }).waitFor();
    await page.getByRole("button", { name: `Break the lock ${visible}` }).click();
    await page.getByRole("dialog").getByText(visible).first().waitFor();
    expect(await page.locator("main img, main script, main style, dialog img").count()).toBe(0);
    // A character that turns the text around would make the user confirm something else.
    expect(await page.getByRole("dialog").innerText()).not.toContain("\u202e");
    await held.release();
  });
});
