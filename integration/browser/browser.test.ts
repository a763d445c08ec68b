import { chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { dropResponse, type FaultProxy, isLease, isWrite, startAzurite, startFaultProxy } from "../../src/testing.js";
import { findChromium } from "./chromium.js";
import { servePage } from "./page-server.js";
import type { Scene, Scenes } from "./page.js";
import { prepareStorage } from "./storage.js";

const executablePath = findChromium();
if (executablePath === undefined) console.log("Chromium is not installed (Debian: apt-get install chromium): the tests in a browser are left out.");

test.runIf(process.env["CI"])("Chromium is there where all tests have to run", () => {
  expect(executablePath).toBeDefined();
});

describe.skipIf(executablePath === undefined)("in Chromium, with the browser builds of the SDKs", () => {
  // Whatever was started before something failed is stopped as well.
  const cleanups: (() => Promise<unknown>)[] = [];
  let blobProxy: FaultProxy;
  let tableProxy: FaultProxy;
  let page: Page;
  let scene: Scene;

  beforeAll(async () => {
    const azurite = await startAzurite();
    cleanups.push(() => azurite.stop());
    const server = await servePage();
    cleanups.push(() => server.stop());
    blobProxy = await startFaultProxy(azurite.blobUrl);
    cleanups.push(() => blobProxy.stop());
    tableProxy = await startFaultProxy(azurite.tableUrl);
    cleanups.push(() => tableProxy.stop());
    scene = { ...(await prepareStorage(azurite, new URL(server.url).origin)), blobUrl: blobProxy.url, tableUrl: tableProxy.url };
    // Its sandbox does not work for root, which is who runs the tests in a container; the page is our own.
    const browser = await chromium.launch({ executablePath: executablePath!, args: ["--no-sandbox"] });
    cleanups.push(() => browser.close());
    page = await browser.newPage();
    page.on("pageerror", (error) => console.error(error));
    await page.goto(server.url);
    await page.waitForFunction(() => "scenes" in globalThis);
  });
  afterAll(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  /** Plays a scene in the page. */
  function play<K extends keyof Scenes>(name: K, ...args: Parameters<Scenes[K]>): Promise<Awaited<ReturnType<Scenes[K]>>> {
    const call = ([key, given]: [string, unknown[]]): unknown => {
      const { scenes } = globalThis as unknown as { scenes: Record<string, (...all: unknown[]) => unknown> };
      return scenes[key]?.(...given);
    };
    return page.evaluate(call, [name, args] satisfies [string, unknown[]]) as Promise<Awaited<ReturnType<Scenes[K]>>>;
  }

  test("racing updates of a blob all count", async () => {
    expect(await play("updateBlob", scene)).toMatchObject({ n: 12 });
  });

  test("a text goes through a Blob unharmed", async () => {
    expect(await play("rewriteText", scene)).toBe("Grüße, Welt");
  });

  test("updates and a transaction of a table count", async () => {
    expect(await play("updateEntity", scene)).toBe(5);
  });

  test("a mutator is applied once when answers are lost, although browsers send again by themselves", async () => {
    const faults = [dropResponse({ when: isWrite, probability: 0.3 })];
    blobProxy.reset(faults);
    tableProxy.reset(faults);
    expect(await play("updateOften", scene, 20)).toEqual({ blob: 20, entity: 20, rows: 20 });
    expect(blobProxy.faultCount()).toBeGreaterThan(2);
    expect(tableProxy.faultCount()).toBeGreaterThan(4);
    blobProxy.reset();
    tableProxy.reset();
  });

  test("a lease is renewed until it is released", async () => {
    const held = play("holdLease", scene, "enough");
    await blobProxy.waitFor(() => blobProxy.count(isLease("renew")) >= 2);
    await page.evaluate(() => globalThis.dispatchEvent(new Event("enough")));
    expect(await held).toEqual({ second: undefined, held: true });
    expect(blobProxy.count(isLease("release"))).toBe(1);
  });

  test("the loss of a lease is noticed", async () => {
    expect(await play("loseLease", scene)).toBe(true);
  });

  test("a consumer with an inbox handles each order once, while answers of the inbox are lost", async () => {
    tableProxy.reset([dropResponse({ when: isWrite, probability: 0.3 })]);
    expect(await play("consume", scene, 20)).toEqual({ handled: Array.from({ length: 20 }, (_, i) => i), left: 0 });
    expect(tableProxy.faultCount()).toBeGreaterThan(0);
  });
});
