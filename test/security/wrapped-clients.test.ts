import { describe, expect, it, vi } from "vitest";

import { appendExactlyOnce, jsonBlob, optimisticUpdate, readTarget, runTransaction, tableEntity, tryAcquireLease, withLease } from "../../src/index.js";
import { credentialScopeOf } from "../../src/core/call-queue.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { ScriptedLeasable } from "../lease/fakes/scripted-leasable.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

const denied = (): never => {
  throw new TypeError("denied by the wrapper"); // before anything was sent
};

/** Ways of denying methods of a client that shares its pipeline and URL with another one. */
const wrappers: [string, <C extends object>(client: C, methods: readonly string[]) => C][] = [
  ["a subclass", (client, methods) => {
    const prototype = Object.create(Object.getPrototypeOf(client) as object) as object;
    for (const method of methods) Object.defineProperty(prototype, method, { value: denied });
    return Object.setPrototypeOf(client, prototype) as typeof client;
  }],
  ["a proxy", (client, methods) => new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (methods.includes(String(name))) return denied;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  })],
  ["an own property", (client, methods) => {
    for (const method of methods) Object.defineProperty(client, method, { value: denied });
    return client;
  }],
  ["an object of its own with the pipeline", (client, methods) => {
    const own = Object.create(null) as Record<string, unknown>;
    for (let level: object = client; level !== Object.prototype; level = Object.getPrototypeOf(level) as object) {
      for (const name of Object.getOwnPropertyNames(level)) {
        const value: unknown = Reflect.get(client, name, client);
        own[name] ??= typeof value === "function" ? (value.bind(client) as unknown) : value;
      }
    }
    for (const method of methods) own[method] = denied;
    return own as typeof client;
  }],
];

async function outcomes(calls: Promise<unknown>[]): Promise<{ done: number; refused: number }> {
  const settled = await Promise.allSettled(calls);
  const refused = settled.filter((call) => call.status === "rejected" && String(call.reason).includes("denied by the wrapper")).length;
  return { done: settled.filter((call) => call.status === "fulfilled").length, refused };
}

describe.each(wrappers)("the calls of a client that is wrapped by %s", (_, wrap) => {
  it("and denies writes are not carried out by another client of the same blob", async () => {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service);
    blob.put({ plain: 0, wrapped: 0 });
    const other = wrap(new FakeBlockBlob(service), ["upload"]);
    const add = (client: FakeBlockBlob, name: "plain" | "wrapped") =>
      optimisticUpdate(jsonBlob<{ plain: number; wrapped: number }>(client), (doc) => { doc[name]++; });
    const calls = Array.from({ length: 25 }, () => [add(blob, "plain"), add(other, "wrapped")]).flat();
    expect(await outcomes(calls)).toEqual({ done: 25, refused: 25 });
    expect(blob.json).toEqual({ plain: 25, wrapped: 0 });
  });

  it("and denies transactions are not carried out by another client of the same table", async () => {
    const service = new FakeService();
    const table = new FakeTransactionTable(service);
    const other = wrap(new FakeTransactionTable(service), ["submitTransaction", "updateEntity", "createEntity"]);
    const add = (client: FakeTransactionTable, rowKey: string) => runTransaction(client, "p", (tx) => tx.upsert({ rowKey, n: 1 }));
    const calls = Array.from({ length: 10 }, (_unused, index) => [add(table, `plain-${index}`), add(other, `wrapped-${index}`)]).flat();
    expect(await outcomes(calls)).toEqual({ done: 10, refused: 10 });
    expect(table.rowKeys().filter((rowKey) => rowKey.startsWith("wrapped"))).toEqual([]);
    const entity = (client: FakeTransactionTable) => optimisticUpdate(tableEntity<{ n: number }>(client, "p", "plain-0"), (row) => { row.n++; });
    expect(await outcomes([entity(table), entity(other)])).toEqual({ done: 1, refused: 1 });
  });

  it("and denies appends are not carried out by another client of the same blob", async () => {
    const service = new FakeService();
    const blob = new FakeAppendBlob(service);
    blob.put();
    const other = wrap(new FakeAppendBlob(service), ["appendBlock"]);
    const calls = Array.from({ length: 5 }, () => [appendExactlyOnce(blob, "plain\n"), appendExactlyOnce(other, "wrapped\n")]).flat();
    const { done } = await outcomes(calls);
    expect(done).toBe(5);
    expect(blob.text).not.toContain("wrapped");
  });

  it("and denies leases are not given a lease that another client has acquired", async () => {
    const blob = new ScriptedLeasable({});
    const pipeline = {};
    Object.assign(blob, { pipeline });
    const other = wrap(Object.assign(new ScriptedLeasable({}), { pipeline }), ["getBlobLeaseClient"]);
    const first = await tryAcquireLease(blob);
    const waiting = withLease(other, () => "held", { waitInMs: 1_000 });
    await Promise.resolve();
    await first?.release();
    await expect(waiting).rejects.toThrow("denied by the wrapper");
  });
});

describe("the credential scope", () => {
  it("is the same for clients of one class that share a pipeline", async () => {
    const service = new FakeService();
    const [a, b] = [new FakeBlockBlob(service), new FakeBlockBlob(service)];
    a.put({ n: 0 });
    expect(credentialScopeOf(a)).toBe(credentialScopeOf(b));
    await Promise.all([a, b].map((blob) => optimisticUpdate(jsonBlob<{ n: number }>(blob), (doc) => { doc.n++; })));
    expect([(await readTarget(jsonBlob<{ n: number }>(a))).value, service.count("upload")]).toEqual([{ n: 2 }, 1]);
  });

  it("is not the same for another pipeline, another class, or a method that was replaced", () => {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service);
    class Sub extends FakeBlockBlob {}
    const replaced = new FakeBlockBlob(service);
    replaced.upload = blob.upload.bind(blob);
    const others = [new FakeBlockBlob(service, { pipeline: {} }), new Sub(service), replaced, new Proxy(blob, {})];
    expect(new Set([blob, ...others].map(credentialScopeOf)).size).toBe(5);
    // A method that is replaced after the first use counts, too.
    const patched = new FakeBlockBlob(service);
    expect(credentialScopeOf(patched)).toBe(credentialScopeOf(blob));
    patched.download = denied;
    expect(credentialScopeOf(patched)).not.toBe(credentialScopeOf(blob));
  });

  it.each(wrappers)("of a client that is wrapped by %s is its own in a browser, too", async (_, wrap) => {
    vi.resetModules();
    const { credentialScopeOf: scopeOf } = await import("../../src/core/call-queue.js");
    vi.stubGlobal("process", {});
    const service = new FakeService();
    const [plain, other, wrapped] = [new FakeBlockBlob(service), new FakeBlockBlob(service), wrap(new FakeBlockBlob(service), ["upload"])];
    const scopes = [plain, other, wrapped].map(scopeOf);
    vi.unstubAllGlobals();
    expect(scopes[0]).toBe(scopes[1]);
    expect(scopes[0]).not.toBe(scopes[2]);
  });
});
