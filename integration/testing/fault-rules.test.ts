import type { BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import {
  allOf,
  respondWith,
  delay,
  dropResponse,
  type FaultProxy,
  isLease,
  isRead,
  isWrite,
  dropRequest,
  startFaultProxy,
} from "../../src/testing.js";
import { azurite, freshContainer } from "../support/clients.js";

let proxy: FaultProxy;
let blob: BlockBlobClient;

beforeEach(async () => {
  proxy = await startFaultProxy(azurite().blobUrl);
  blob = (await freshContainer({ through: proxy, retries: false })).getBlockBlobClient("doc");
});

afterEach(async () => {
  await proxy.stop();
});

const upload = () => blob.upload("x", 1);
const statusOf = (call: Promise<unknown>) => call.then(() => 200, (error: unknown) => (error as { statusCode: number }).statusCode);

async function statuses(times: number): Promise<number[]> {
  const seen: number[] = [];
  for (let i = 0; i < times; i++) seen.push(await statusOf(upload()));
  return seen;
}

describe("fault rules", () => {
  it("strike the same requests again when they are set again, and about as many as their probability says", async () => {
    const rules = [respondWith(503, { probability: 0.3 })];
    proxy.rules = rules;
    const first = await statuses(60);
    proxy.setRules(rules);
    expect(await statuses(60)).toEqual(first);

    const struck = first.filter((status) => status === 503).length;
    expect(struck).toBeGreaterThan(8);
    expect(struck).toBeLessThan(30);
    expect(proxy.faultCount("status-503")).toBe(2 * struck);
  });

  it("strike other requests with another seed", async () => {
    proxy.rules = [respondWith(503, { probability: 0.5 })];
    const first = await statuses(40);
    const other = await startFaultProxy(azurite().blobUrl, proxy.rules, { seed: 2 });
    try {
      blob = (await freshContainer({ through: other, retries: false })).getBlockBlobClient("doc");
      expect(await statuses(40)).not.toEqual(first);
    } finally {
      await other.stop();
    }
  });

  it("are spent after the given number of times", async () => {
    proxy.rules = [respondWith(503, { times: 2 })];
    expect(await statuses(4)).toEqual([503, 503, 200, 200]);
  });

  it("strike no more often than that under parallel requests", async () => {
    proxy.rules = [respondWith(503, { times: 5 })];
    const seen = await Promise.all(Array.from({ length: 20 }, () => statusOf(upload())));
    expect(seen.filter((status) => status === 503)).toHaveLength(5);
    expect(proxy.faultCount()).toBe(5);
  });

  it("are tried in order, and the first that matches wins", async () => {
    proxy.rules = [respondWith(500, { when: isRead }), respondWith(429, { times: 1 }), respondWith(503)];
    expect(await statuses(2)).toEqual([429, 503]);
    expect(await statusOf(blob.getProperties())).toBe(500);
  });

  it("give way to the next rule when the answer is not the one they wait for", async () => {
    proxy.rules = [
      respondWith(429, { at: "response", whenResponse: ({ status }) => status === 404 }),
      respondWith(500, { at: "response", when: isWrite, whenResponse: ({ status }) => status === 201 }),
      dropResponse(),
    ];
    expect(await statusOf(blob.getProperties())).toBe(429);
    expect(await statusOf(upload())).toBe(500);
    await expect(blob.getProperties()).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  it("can be replaced while the proxy runs, with and without faults", async () => {
    expect(await statuses(1)).toEqual([200]);
    proxy.rules = [respondWith(503)];
    expect(await statuses(1)).toEqual([503]);
    proxy.rules = [];
    expect(await statuses(1)).toEqual([200]);
  });

  it("can be aimed at one lease operation", async () => {
    await upload();
    proxy.reset([respondWith(503, { when: isLease("renew") })]);
    const lease = blob.getBlobLeaseClient();
    await lease.acquireLease(15);
    await expect(lease.renewLease()).rejects.toMatchObject({ statusCode: 503 });
    await lease.releaseLease();
    expect(proxy.count(isLease())).toBe(3);
    expect(proxy.count(allOf(isLease("release"), isWrite))).toBe(1);
  });

  it("report what a predicate threw instead of hiding it behind a broken connection", async () => {
    proxy.rules = [
      dropRequest({
        when: () => {
          throw new Error("no such thing");
        },
      }),
    ];
    await expect(upload()).rejects.toMatchObject({
      statusCode: 400,
      code: "FaultRuleFailed",
      message: expect.stringContaining("no such thing") as string,
    });
  });

  it.each([
    ["a probability above 1", dropRequest({ probability: 1.5 })],
    ["negative times", dropRequest({ times: -1 })],
    ["a status that is no error", respondWith(200)],
    ["a delay that ends before it starts", delay({ minInMs: 5, maxInMs: 1 })],
    ["an unknown action", { action: { kind: "drop-answer" } as never }],
    ["no action", { when: isWrite } as never],
    ["an unknown member of an action", { action: { kind: "hang", at: "request", forMs: 5 } as never }],
    ["an unknown stage", { action: { kind: "hang", at: "answer" } as never }],
    ["an unknown member", { action: { kind: "drop-request" }, tiems: 1 } as never],
    ["a look at the answer before there is one", respondWith(503, { whenResponse: () => true })],
  ])("are refused at once with %s", (_, rule) => {
    expect(() => (proxy.rules = [rule])).toThrow(/^fault rule\b/);
    expect(proxy.rules).toEqual([]);
  });
});

describe("the proxy's log", () => {
  it("counts every request exactly once, under parallel requests too", async () => {
    proxy.rules = [dropResponse({ name: "lost", when: isWrite, probability: 0.2 })];
    await Promise.allSettled(Array.from({ length: 50 }, upload));
    await Promise.all(Array.from({ length: 10 }, () => blob.exists()));

    expect(proxy.requests).toBe(60);
    expect(proxy.forwarded).toBe(60);
    expect(proxy.count(isWrite)).toBe(50);
    expect(proxy.count(({ path }) => path.endsWith("/doc"))).toBe(60);
    expect(proxy.count(({ outcome }) => outcome === "cut")).toBe(proxy.faultCount("lost"));
    expect(proxy.count(({ ruleNames }) => ruleNames.includes("lost"))).toBe(proxy.faultCount("lost"));
    expect(proxy.count(({ storageStatus }) => storageStatus === 201)).toBe(50);
  });

  it("starts anew after a reset, and the rules are gone", async () => {
    proxy.rules = [respondWith(503)];
    await statuses(1);
    proxy.reset();
    expect([proxy.requests, proxy.forwarded, proxy.faultCount(), proxy.log.length]).toEqual([0, 0, 0, 0]);
    expect(await statuses(1)).toEqual([200]);
  });

  it("keeps the latest requests only and refuses to count what it has forgotten", async () => {
    const small = await startFaultProxy(azurite().blobUrl, [], { logLimit: 3 });
    try {
      blob = (await freshContainer({ through: small, retries: false })).getBlockBlobClient("doc");
      await statuses(3);
      expect(small.count(isWrite)).toBe(3);
      await blob.exists();
      expect(small.log.map(({ method }) => method)).toEqual(["PUT", "PUT", "HEAD"]);
      expect(small.requests).toBe(4);
      expect(() => small.count(isWrite)).toThrow(RangeError);
    } finally {
      await small.stop();
    }
  });

  it("ends a wait for a request that never comes", async () => {
    await expect(proxy.waitFor(() => true, { timeoutInMs: 20 })).rejects.toThrow("within 20 ms");
    await expect(proxy.waitFor(() => true, { abortSignal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    const waiting = expect(proxy.waitFor(() => true)).rejects.toThrow("stopped");
    await proxy.stop();
    await waiting;
  });
});
