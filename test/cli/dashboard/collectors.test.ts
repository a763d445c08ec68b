import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";

import { describe, expect, it, onTestFinished, vi } from "vitest";

import { sortLocks } from "../../../src/cli/dashboard/collect-locks.js";
import { collectTable } from "../../../src/cli/dashboard/collect-table.js";
import { Dashboard } from "../../../src/cli/dashboard/dashboard.js";
import { PolledSource } from "../../../src/cli/dashboard/polled-source.js";
import { limitRequests, startCounting } from "../../../src/cli/dashboard/request-counter.js";
import type { TableLike } from "../../../src/clients/table.js";
import { run } from "../../../src/cli/run.js";
import { blobNameOf, formatLockRecord, parseLockRecord } from "../../../src/lock/lock-record.js";
import { FakeTerminal } from "../fake-terminal.js";

type Blob = Parameters<typeof sortLocks>[0][number];

function lock(name: string, { held = true, holder = "worker-1", epoch = 7, data }: { held?: boolean; holder?: string; epoch?: number; data?: string } = {}): Blob {
  const record = { ...parseLockRecord(undefined), epoch, holder, acquiredOn: new Date(0), data };
  return { name: blobNameOf("locks/", name), metadata: formatLockRecord(record), properties: { leaseState: held ? "leased" : "available" } };
}

const countOf = (name: string, kind: string, count: string): Blob => ({ name: `${blobNameOf("locks/", name)}.${kind}`, metadata: { asc_slots: count }, properties: {} });

describe("the locks of the dashboard", () => {
  it("are sorted by what they are, with the held ones first", () => {
    const found = sortLocks(
      [
        lock("free", { held: false }), lock("a"), lock("leader", { epoch: 12 }), lock('["table","orders","eu"]'),
        lock("exports/0"), lock("exports/2", { held: false }), lock("exports/9"), lock("exports/notes"), countOf("exports", "slots", "3"),
        lock("work/shards/1", { data: "00000000-0000-4000-8000-000000000000.1.2.rack 4" }), lock("work/members/0"), countOf("work", "shards", "8"),
        lock("catalogue/write", { held: false }), lock("catalogue/read/00000000-0000-4000-8000-000000000000"),
        { name: "locks/not.a.lock", properties: {} },
      ],
      "locks/",
      ["leader", "nobody"],
    ); // prettier-ignore
    expect(found.locks.map(({ label, isHeld }) => [label, isHeld])).toEqual([["a", true], ["exports/notes", true], ["leader", true], ['table orders, partition "eu"', true], ["free", false]]);
    expect(found).toMatchObject({ heldCount: 4, lockCount: 5 });
    expect(found.elections).toMatchObject([{ name: "leader", lock: { epoch: 12, isHeld: true } }, { name: "nobody", lock: undefined }]);
    expect(found.slots).toMatchObject([
      { kind: "semaphore", name: "exports", slots: 3, held: [{ slot: 0 }] },
      { kind: "balancer", name: "work", slots: 8, held: [{ slot: 1, lock: { data: "rack 4" } }] },
    ]);
    expect(found.readerWriterLocks).toMatchObject([{ name: "catalogue", writer: undefined, readers: [{ holder: "worker-1" }] }]);
  });

  it("keep hostile names, holders and data as they are: the page shows them as text", () => {
    const text = `<img src=x onerror=alert(1)>\u202e"'\n../..`;
    const { locks } = sortLocks([lock(text, { holder: text, data: text })], "locks/", []);
    expect(locks).toMatchObject([{ name: text, label: text, holder: text, data: text }]);
  });

  it("are not misled by records that are none", () => {
    for (const count of ["0", "-1", "NaN", "1e999", "<b>"]) expect(sortLocks([countOf("x", "slots", count)], "locks/", []).slots).toEqual([]);
    expect(sortLocks([lock("__proto__"), lock("constructor")], "locks/", ["__proto__"])).toMatchObject({ lockCount: 2, elections: [{ lock: { epoch: 7 } }] });
  });

  it("are shown up to a number that a page can draw", () => {
    const found = sortLocks(Array.from({ length: 1_200 }, (_, i) => lock(`l${i}`)), "locks/", []);
    expect(found.locks).toHaveLength(500);
    expect(found).toMatchObject({ lockCount: 1_200, heldCount: 1_200 });
  });
});

describe("the counts of a table", () => {
  function tableOf(pages: number): { readonly table: TableLike; readonly read: () => number } {
    let read = 0;
    const row = { partitionKey: "p", rowKey: "~asc~inbox!q!k", etag: "e" };
    async function* inboxPages(): AsyncGenerator<object[]> {
      for (let i = 0; i < pages; i++) {
        read++;
        yield await Promise.resolve([{ ...row, state: "done" }, { ...row, state: "claimed" }, { ...row, state: "released" }]);
      }
    }
    async function* none(): AsyncGenerator<object[]> {
      yield await Promise.resolve([]);
    }
    const listEntities: TableLike["listEntities"] = (options) => ({ byPage: () => (options?.queryOptions?.filter?.includes("inbox") ? inboxPages() : none()) });
    return { table: { url: "https://a.table.core.windows.net/t", tableName: "t", listEntities, submitTransaction: () => undefined } as unknown as TableLike, read: () => read };
  }

  it("are those of all rows, if these are few", async () => {
    const found = await collectTable(tableOf(2).table, new AbortController().signal);
    expect(found.inbox).toEqual({ claimed: 2, released: 2, completed: 2, isLowerBound: false });
    expect(found.outbox).toEqual({ messages: 0, oldestOn: undefined, isLowerBound: false });
  });

  it("are lower bounds, and say so, after five pages", async () => {
    const { table, read } = tableOf(100);
    expect((await collectTable(table, new AbortController().signal)).inbox).toEqual({ claimed: 5, released: 5, completed: 5, isLowerBound: true });
    expect(read()).toBe(5);
  });
});

describe("a source of the dashboard", () => {
  /** A service that answers, and a request to it. */
  async function service(): Promise<() => Promise<void>> {
    const server = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    return () => new Promise((resolve, reject) => get({ host: "127.0.0.1", port }, (response) => response.resume().on("end", resolve)).on("error", reject));
  }

  function countRequestsOfTest(): void {
    const counting = startCounting();
    onTestFinished(() => counting[Symbol.dispose]());
  }

  it("is read by one of several pages, once an interval, and knows what that costs", async () => {
    const request = await service();
    countRequestsOfTest();
    let polls = 0;
    const source = new PolledSource("orders", 60_000, async () => {
      await request();
      await request();
      return ++polls;
    });
    const { signal } = new AbortController();
    await Promise.all([source.refresh(signal), source.refresh(signal), request()]);
    await source.refresh(signal);
    expect(source.source).toMatchObject({ name: "orders", value: 1 });
    expect(source.source).not.toHaveProperty("error");
    // Of the test's own request nothing.
    expect([source.requests, source.requestsPerMinute]).toEqual([2, 2]);
    source.expire();
    await source.refresh(signal);
    expect([source.source.value, source.requests]).toEqual([2, 4]);
  });

  it("shows why it fails, beside what was found before", async () => {
    let fails = false;
    const source = new PolledSource("orders", 1_000, () => (fails ? Promise.reject(new Error("no connection")) : Promise.resolve(1)));
    const { signal } = new AbortController();
    await source.refresh(signal);
    const { takenOn } = source.source;
    fails = true;
    source.expire();
    await source.refresh(signal);
    expect(source.source).toEqual({ name: "orders", value: 1, takenOn, error: "no connection" });
  });

  it("ends work that sends more requests than it may", async () => {
    const request = await service();
    countRequestsOfTest();
    let sent = 0;
    await limitRequests(3, new AbortController().signal, async (signal) => {
      while (!signal.aborted) {
        sent++;
        await request();
      }
    });
    expect(sent).toBe(3);
  });
});

describe("a snapshot", () => {
  const none = { containers: [], prefix: "locks/", elections: [], queues: [], tables: [], schedules: [], intervalInMs: 5_000, allowActions: true };

  it("is there in three seconds, without what does not respond; that is an error after fifteen", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const account = { settings: { name: "contoso" }, container: () => new Promise(() => undefined), queue: () => Promise.reject(new Error("no such queue")) };
    const dashboard = new Dashboard(account as never, { ...none, containers: ["locks"], queues: ["orders"] });
    onTestFinished(() => dashboard.stop());
    const first = dashboard.snapshot();
    await vi.advanceTimersByTimeAsync(3_010);
    expect(await first).toMatchObject({ account: "contoso", containers: [{ name: "locks" }], queues: [{ name: "orders", error: "no such queue" }] });
    expect((await first).containers[0]).not.toHaveProperty("error");
    await vi.advanceTimersByTimeAsync(12_010);
    const second = dashboard.snapshot();
    await vi.advanceTimersByTimeAsync(3_010);
    expect((await second).containers[0]?.error).toMatch(/within 15000 ms|15,?000/);
  });

  it("is the limit of what the page may act on", async () => {
    const dashboard = new Dashboard({ settings: { name: "contoso" } } as never, none);
    onTestFinished(() => dashboard.stop());
    for (const action of [
      { kind: "break", container: "other", name: "n", epoch: 1, etag: "e" },
      { kind: "delete", queue: "other", id: "i", version: "v" },
      { kind: "trigger", table: "other", schedule: "default", job: "j", trigger: "t", key: "k" },
    ] as const) {
      await expect(dashboard.perform(action)).rejects.toThrow("The dashboard does not show");
    }
    await expect(dashboard.inspectLock("other", "n")).rejects.toThrow("The dashboard does not show");
  });
});

describe("the dashboard command", () => {
  const env = { AZURE_STORAGE_CONNECTION_STRING: "UseDevelopmentStorage=true" };

  it.each([
    ["nothing to show", []],
    ["an interval that is too short", ["-c", "c", "--interval", "0"]],
    ["a port that is none", ["-c", "c", "--port", "65536"]],
    ["a schedule that cannot exist", ["-t", "t", "--schedule", "a/b"]],
  ])("does not start with %s", async (_, args) => {
    const terminal = new FakeTerminal({ env });
    expect(await run(["dashboard", ...args], terminal)).toBe(2);
    expect(terminal.stderr).not.toBe("");
  });

  it("prints its address, and ends on Ctrl-C without having asked the account anything", async () => {
    const terminal = new FakeTerminal({ env });
    const ended = run(["dashboard", "-c", "c", "--json"], terminal);
    await expect.poll(() => terminal.stdout, { timeout: 30_000 }).not.toBe("");
    const { url } = JSON.parse(terminal.stdout) as { url: string };
    expect(await (await fetch(url)).text()).toContain("<title>Dashboard");
    expect((await fetch(`${url}page.js`)).ok).toBe(true);
    terminal.interrupt();
    expect(await ended).toBe(0);
    expect(terminal.endsSoon).toBe(true);
    await expect(fetch(url)).rejects.toThrow();
    expect(terminal.stderr).toBe("");
  });

  it("says that a port is taken", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const terminal = new FakeTerminal({ env });
    expect(await run(["dashboard", "-c", "c", "--port", String((server.address() as AddressInfo).port)], terminal)).toBe(1);
    expect(terminal.stderr).toContain("cannot be used");
  });
});
