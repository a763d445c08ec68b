import { describe, expect, it, vi } from "vitest";
import { blobMetadata, deleteIfUnchanged, leasedUpdate, optimisticUpdate, overwrite, readTarget, runTransaction, tableEntity } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import type { FakeTable } from "../fakes/fake-table.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { fakePartition, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

describe("an update inside the mutator of an update of the same target", () => {
  const nested: Record<string, (blob: FakeBlockBlob) => Promise<unknown>> = {
    optimisticUpdate: (blob) => optimisticUpdate<Counter>(blob, increment),
    "optimisticUpdate of its metadata": (blob) => optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1")),
    leasedUpdate: (blob) => leasedUpdate<Counter>(blob, increment),
    overwrite: (blob) => overwrite<Counter>(blob, { n: 7 }),
    deleteIfUnchanged: (blob) => deleteIfUnchanged(blob, blob.stored!.etag),
  };

  it.each(Object.entries(nested))("%s is rejected at once, and says what to do", async (_, inner) => {
    for (const pause of [false, true]) {
      const { service, blob } = counterBlob();
      const error = await rejection(
        optimisticUpdate<Counter>(blob, async (doc) => {
          if (pause) await new Promise((resolve) => setTimeout(resolve, 1));
          await inner(blob);
          doc.n++;
        }),
      );
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(/inside the function of optimisticUpdate .* Make the change in the function/);
      expect(service.operations).toEqual(["download"]);
      expect(blob.json).toEqual({ n: 0 });
    }
  });

  it("is found from a function that is not async, too, and through another client of the same blob", async () => {
    const { service, blob } = counterBlob();
    const other = new FakeBlockBlob(service, { url: blob.url });
    expect(await rejection(optimisticUpdate<Counter>(blob, () => optimisticUpdate<Counter>(other, increment).then(() => undefined)))).toBeInstanceOf(TypeError);
    expect(blob.json).toEqual({ n: 0 });
  });

  it("after an await of a function that is not async ends the outer call at its second run at the latest, on every platform", async () => {
    const { service, blob } = counterBlob();
    // As in a process in which no function has run under a lease, or was async.
    vi.resetModules();
    const fresh = await import("../../src/index.js");
    const error = await rejection(
      fresh.optimisticUpdate<Counter>(blob, (doc) => Promise.resolve().then(() => fresh.optimisticUpdate<Counter>(blob, increment, { coalesce: false })).then(() => { doc.n++; })),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect((blob.json as Counter).n).toBeLessThanOrEqual(1);
    expect(service.count("upload")).toBeLessThanOrEqual(2);
  });

  it("a runTransaction inside one on the same partition is rejected", async () => {
    const { table } = fakePartition({ a: 1 });
    const error = await rejection(
      runTransaction(table, "p", async (tx) => {
        await tx.get("a");
        await runTransaction(table, "p", (inner) => inner.upsert({ rowKey: "a", n: 5 }));
      }),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect(valueOf(table, "a")).toBe(1);
  });

  const entityCalls: Record<string, (table: FakeTable) => Promise<unknown>> = {
    optimisticUpdate: (table) => optimisticUpdate(tableEntity<Numbered>(table, "p", "a"), (draft) => { draft.n++; }),
    overwrite: (table) => overwrite(tableEntity<Numbered>(table, "p", "a"), { n: 7 }),
    deleteIfUnchanged: (table) => deleteIfUnchanged(tableEntity(table, "p", "a"), "W/\"1\""),
  };

  it.each(Object.entries(entityCalls))("%s of an entity inside a runTransaction on its partition is rejected at once", async (call, inner) => {
    const { service, table } = fakePartition({ a: 1 });
    const error = await rejection(
      runTransaction(table, "p", async (tx) => {
        await tx.get("a");
        tx.update({ rowKey: "a", n: 5 });
        await inner(table);
      }),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(new RegExp(`^${call} of .* inside the function of runTransaction of its partition`));
    expect(valueOf(table, "a")).toBe(1);
    expect(service.operations).toEqual(["getEntity"]);
  });

  it("a runTransaction inside an update of an entity of its partition is rejected at once", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const error = await rejection(
      optimisticUpdate(tableEntity<Numbered>(table, "p", "a"), async (draft) => {
        await runTransaction(table, "p", (tx) => tx.upsert({ rowKey: "a", n: 5 }));
        draft.n++;
      }),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(/^runTransaction of .* inside the function of optimisticUpdate of one of its entities/);
    expect(valueOf(table, "a")).toBe(1);
    expect(service.operations).toEqual(["getEntity"]);
  });
});

describe("an update inside a mutator works", () => {
  it("on another target, and so does a read of the same one", async () => {
    const { service, blob } = counterBlob();
    const other = new FakeBlockBlob(service, { url: "https://account.blob.core.windows.net/docs/other.json" });
    other.put({ n: 0 });
    await optimisticUpdate<Counter>(blob, async (doc) => {
      await readTarget(blob);
      await optimisticUpdate<Counter>(other, increment);
      doc.n++;
    });
    expect([blob.json, other.json]).toEqual([{ n: 1 }, { n: 1 }]);
  });

  it("on another entity of the same partition, and in a transaction on an entity of another partition", async () => {
    const { table } = fakePartition({ a: 1, b: 1 });
    await optimisticUpdate(tableEntity<Numbered>(table, "p", "a"), async (draft) => {
      await optimisticUpdate(tableEntity<Numbered>(table, "p", "b"), (other) => { other.n++; });
      draft.n++;
    });
    await runTransaction(table, "another", async (tx) => {
      await optimisticUpdate(tableEntity<Numbered>(table, "p", "b"), (other) => { other.n++; });
      tx.upsert({ rowKey: "a", n: 1 });
    });
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([2, 3]);
  });

  it("on the same target once the outer call has ended, from work that its mutator started", async () => {
    const { blob } = counterBlob();
    let later: Promise<unknown> | undefined;
    await optimisticUpdate<Counter>(blob, async (doc) => {
      await Promise.resolve();
      doc.n++;
      later = new Promise((resolve) => setTimeout(resolve, 5)).then(() => optimisticUpdate<Counter>(blob, increment));
    });
    await later;
    expect(blob.json).toEqual({ n: 2 });
  });

  it("of another caller of the same target, at the same time", async () => {
    const { blob } = counterBlob();
    const slow = optimisticUpdate<Counter>(blob, async (doc) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      doc.n++;
    });
    await Promise.all([slow, ...Array.from({ length: 5 }, () => optimisticUpdate<Counter>(blob, increment))]);
    expect(blob.json).toEqual({ n: 6 });
  });
});
