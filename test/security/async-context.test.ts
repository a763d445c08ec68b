import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, describe, expect, it, vi } from "vitest";

import { blobMetadata, BlobLocks, jsonBlob, leasedUpdate, Once, optimisticUpdate, runTransaction, tableEntity } from "../../src/index.js";
import { gate } from "../fakes/faults.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { holderOf } from "../lock/held-table.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { fakePartition } from "../transaction/fakes/partition.js";

const user = new AsyncLocalStorage<string>();
const users = ["ann", "bob", "cid", "dan"];
const seen = (): string => user.getStore() ?? "nobody";
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Calls of several users at the same time: they share requests. */
function asUsers<R>(call: (name: string) => Promise<R>): Promise<R[]> {
  return Promise.all(users.map((name) => user.run(name, () => call(name))));
}

afterEach(() => {
  vi.unstubAllGlobals();
});

interface Log {
  entries: string[];
}

describe("a function of a caller that shares requests with others runs in the async context of its own call", () => {
  const bothKinds: [string, (name: string, log: Log) => void | Promise<void>][] = [
    ["a mutator", (name, log) => void log.entries.push(`${name}:${seen()}`)],
    ["an async mutator, also after its first await", async (name, log) => {
      const before = seen();
      await turn();
      log.entries.push(`${name}:${before === seen() ? seen() : `${before}, then ${seen()}`}`);
    }],
    ["a mutator that returns a promise", (name, log) => turn().then(() => void log.entries.push(`${name}:${seen()}`))],
  ];

  it.each(bothKinds)("%s", async (_, mutate) => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put({ entries: [] });
    await asUsers((name) => optimisticUpdate(jsonBlob<Log>(blob), (log) => mutate(name, log)));
    // A second round, in which the queue that the first one started has ended.
    await asUsers((name) => optimisticUpdate(jsonBlob<Log>(blob), (log) => mutate(name, log)));
    expect(blob.json).toEqual({ entries: [...users, ...users].map((name) => `${name}:${name}`) });
  });

  it("initial", async () => {
    const service = new FakeService();
    // Of one batch, only the first call creates the blob: the second one by its own context if the first one's is taken back.
    const blob = new FakeBlockBlob(service);
    const refused = user.run("ann", () => optimisticUpdate(jsonBlob<Log>(blob), () => { throw new Error("refused"); }, { initial: () => ({ entries: [seen()] }) }));
    const done = user.run("bob", () => optimisticUpdate(jsonBlob<Log>(blob), (log) => log, { initial: () => ({ entries: [seen()] }) }));
    await expect(refused).rejects.toThrow("refused");
    expect((await done).value).toEqual({ entries: ["bob"] });
  });

  it("a repetition after a conflict", async () => {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service);
    blob.put({ entries: [] });
    let conflicts = 0;
    await asUsers((name) => optimisticUpdate(jsonBlob<Log>(blob), (log) => {
      if (conflicts++ < users.length) blob.putKeeping({ entries: [] });
      log.entries.push(`${name}:${seen()}`);
    }));
    expect(blob.json).toEqual({ entries: users.map((name) => `${name}:${name}`) });
  });

  it("the function of a transaction, and what it calls", async () => {
    const { table } = fakePartition({ shared: 0 });
    await asUsers((name) =>
      runTransaction(table, "p", async (tx) => {
        const first = seen();
        await tx.get("shared");
        const authors = [first, seen()];
        await tx.query({ where: () => { authors.push(seen()); return true; } });
        await turn();
        tx.upsert({ rowKey: `row-${name}`, author: [...new Set([...authors, seen()])].join() });
      }),
    );
    for (const name of users) expect(table.property("author", "p", `row-${name}`)?.value).toBe(name);
  });

  it("a mutator of a table entity", async () => {
    const { table } = fakePartition({ shared: 0 });
    const authors = new Set<string>();
    await asUsers((name) => optimisticUpdate(tableEntity<{ n: number }>(table, "p", "shared"), (entity) => {
      authors.add(`${name}:${seen()}`);
      entity.n++;
    }));
    expect([...authors]).toEqual(users.map((name) => `${name}:${name}`));
  });

  it("a mutator under a lease that its process hands over", async () => {
    const server = new FakeLeaseServer();
    const stored = server.addBlob();
    stored.metadata = { authors: "" };
    await asUsers((name) => leasedUpdate(blobMetadata(server.blob()), async (metadata) => {
      const before = seen();
      await turn();
      metadata["authors"] = `${metadata["authors"] ?? ""}${name}:${before}:${seen()},`;
    }));
    expect(stored.metadata["authors"]?.split(",").filter(Boolean).sort()).toEqual(users.map((name) => `${name}:${name}:${name}`));
  });

  it("the function of a lock that its process hands over, and mutators of a locked table", async () => {
    const locks = new BlobLocks(new FakeLeaseServer().container());
    const { table } = fakePartition({ shared: 0 });
    const held = holderOf(table, 7);
    const partition = await held.partition("p");
    const authors = new Set<string>();
    await asUsers((name) => locks.withLock("a", async () => {
      await turn();
      authors.add(`${name}:${seen()}`);
    }));
    expect([...authors].sort()).toEqual(users.map((name) => `${name}:${name}`));
    authors.clear();
    await asUsers((name) => partition.update("shared", () => {
      authors.add(`${name}:${seen()}`);
    }));
    expect([...authors].sort()).toEqual(users.map((name) => `${name}:${name}`));
    await held.release();
  });

  it("the function of Once, also of a call that waited for another one of its process", async () => {
    const once = new Once(new FakeTransactionTable(new FakeService()));
    const failed = user.run("ann", () => once.run("k", async () => { await turn(); throw new Error("no"); })).catch(() => undefined);
    const ran = user.run("bob", () => once.run("k", async () => { await turn(); return seen(); }));
    await failed;
    expect(await ran).toMatchObject({ value: "bob" });
  });

  it("and the requests of a batch travel in the context of one of its callers, not in that of one that was served before", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put({ entries: [] });
    const writers: string[] = [];
    const upload = blob.upload.bind(blob);
    const first = gate();
    Object.defineProperty(blob, "upload", { value: (...args: Parameters<typeof upload>) => { writers.push(seen()); return upload(...args); } });
    blob.service.next("upload", first.fault);
    const add = (name: string) => user.run(name, () => optimisticUpdate(jsonBlob<Log>(blob), (log) => void log.entries.push(name)));
    const ann = add("ann");
    await first.reached;
    const others = [add("bob"), add("cid")];
    first.open();
    await Promise.all([ann, ...others]);
    expect(writers).toEqual(["ann", "bob"]);
  });

  it("and leaves no context behind for the caller", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put({ entries: [] });
    const update = user.run("ann", () => optimisticUpdate(jsonBlob<Log>(blob), (log) => void log.entries.push(seen())));
    await update;
    expect(seen()).toBe("nobody");
    await user.run("bob", async () => {
      await optimisticUpdate(jsonBlob<Log>(blob), (log) => void log.entries.push(seen()));
      expect(seen()).toBe("bob");
    });
  });

  it("is called all the same where the platform has no async context", async () => {
    vi.stubGlobal("process", { ...process, getBuiltinModule: undefined });
    const blob = new FakeBlockBlob(new FakeService());
    blob.put({ entries: [] });
    await asUsers((name) => optimisticUpdate(jsonBlob<Log>(blob), (log) => void log.entries.push(name)));
    expect(blob.json).toEqual({ entries: users });
  });
});
