import { describe, expect, it } from "vitest";
import { blobMetadata, DELETE, jsonBlob, LimitError, optimisticUpdate, overwrite, readTarget, runTransaction, tableEntity } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { Fault } from "../fakes/faults.js";
import { loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

/** Something happens while a request is in flight. */
const meanwhile =
  (act: () => void): Fault =>
  (exchange) =>
    exchange.send(act);

/** A call that comes while a write is in flight, and continues from that write. */
function joinDuringUpload(service: FakeService, call: () => Promise<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    service.next(
      "upload",
      meanwhile(() => void call().then(resolve, reject)),
    );
  });
}

describe("tags that another client sets while the content is updated", () => {
  const tagged = (tags: Record<string, string>) => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { tags });
    return { service, blob };
  };

  it("are kept by every later write of the same group", async () => {
    const { service, blob } = tagged({ state: "new" });
    const second = joinDuringUpload(service, () => optimisticUpdate<Counter>(blob, increment));
    await optimisticUpdate<Counter>(blob, increment).then(() => (blob.stored!.tags = { state: "done", extra: "1" }));
    await second;
    expect(blob.json).toEqual({ n: 2 });
    expect(blob.stored?.tags).toEqual({ state: "done", extra: "1" });
    // The group goes on from its own write, and reads the tags again.
    expect(service.operations).toEqual(["download", "getTags", "upload", "getTags", "upload"]);
  });

  it("are kept if they are set while the write is in flight: the write is conditional on the tags that it keeps", async () => {
    const { service, blob } = tagged({ state: "new" });
    service.next(
      "upload",
      meanwhile(() => (blob.stored!.tags = { state: "done" })),
    );
    const { attempts } = await optimisticUpdate<Counter>(blob, increment);
    expect(attempts).toBe(2);
    expect(blob.stored?.tags).toEqual({ state: "done" });
    expect(blob.json).toEqual({ n: 1 });
  });

  for (const [what, fault] of [["was lost", loseAnswerForGood], ["did not arrive", loseRequest], ["was sent twice", loseAnswer]] as const) {
    it(`are kept by a write that ${what}, and that has one effect`, async () => {
      const { service, blob } = tagged({ state: "new" });
      service.next("upload", fault, meanwhile(() => (blob.stored!.tags = { state: "done" })));
      await optimisticUpdate<Counter>(blob, increment);
      await optimisticUpdate<Counter>(blob, increment);
      expect(blob.json).toEqual({ n: 2 });
      expect(blob.stored?.tags).toEqual({ state: "done" });
    });
  }

  it("are kept although the request for the tags is lost, and a conflict is still certain without a journal", async () => {
    const { service, blob } = tagged({ state: "new" });
    service.next("getTags", loseRequest);
    await optimisticUpdate<Counter>(blob, increment);
    service.next("upload", meanwhile(() => blob.putKeeping({ n: 10 })));
    const { attempts } = await optimisticUpdate<Counter>(blob, increment, { journal: false });
    expect(attempts).toBe(2);
    expect(blob.json).toEqual({ n: 11 });
    expect(blob.stored?.tags).toEqual({ state: "new" });
  });

  it("cost nothing for a blob that has none, and nothing for a read", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    blob.put({ n: 0 }, { tags: { a: "1" } });
    await readTarget(blob);
    await optimisticUpdate<Counter>(blob, () => undefined);
    expect(service.operations).toEqual(["download", "upload", "download", "download"]);
  });

  it("are a conflict if the blob is deleted before they are read", async () => {
    const { service, blob } = tagged({ a: "1" });
    service.next("getTags", meanwhile(() => blob.drop()));
    const { outcome } = await optimisticUpdate<Counter>(blob, increment, { initial: { n: 5 } });
    expect(outcome).toBe("created");
    expect(blob.json).toEqual({ n: 6 });
  });
});

describe("keepTier", () => {
  it("keeps a tier that another client sets between two writes of a group, and finds tags that the blob did not have", async () => {
    const { service, blob } = counterBlob();
    const target = jsonBlob<Counter>(blob, { keepTier: true });
    const second = joinDuringUpload(service, () => optimisticUpdate(target, increment));
    await optimisticUpdate(target, increment).then(() => Object.assign(blob.stored!, { tier: "Cool", tags: { a: "1" } }));
    await second;
    expect(blob.stored).toMatchObject({ tier: "Cool", tags: { a: "1" } });
    expect(blob.json).toEqual({ n: 2 });
  });
});

describe("encryption", () => {
  it("a rewrite keeps the encryption scope, over all writes of a group", async () => {
    const { blob } = counterBlob();
    blob.put({ n: 0 }, { encryptionScope: "tenant7" });
    await optimisticUpdate<Counter>(blob, increment);
    await Promise.all([1, 2].map(() => optimisticUpdate<Counter>(blob, increment)));
    expect(blob.stored?.encryptionScope).toBe("tenant7");
    await optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1"));
    expect(blob.metadata).toMatchObject({ a: "1" });
    expect(blob.stored?.encryptionScope).toBe("tenant7");
  });

  it("a blob with a customer-provided key is read, but never rewritten without it", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { encryptionKeySha256: "hash" });
    expect((await readTarget(blob)).value).toEqual({ n: 0 });
    for (const update of [optimisticUpdate<Counter>(blob, increment), optimisticUpdate(blobMetadata(blob), (m) => void (m["a"] = "1"))]) {
      const error = await rejection(update);
      expect(error).toMatchObject({ code: "SCHEMA", phase: "write" });
      expect(error.message).toContain("customer-provided key");
    }
    expect(service.count("write")).toBe(0);
  });
});

describe("a target that is deleted and created again in one batch", () => {
  it("starts fresh: nothing of the deleted blob is kept", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 5 }, { metadata: { owner: "me" }, tags: { t: "1" }, headers: { blobCacheControl: "x", blobContentType: "text/x" } });
    const [deleted, created] = await Promise.all([
      optimisticUpdate<Counter>(blob, () => DELETE),
      optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } }),
    ]);
    expect([deleted.outcome, created.outcome]).toEqual(["deleted", "created"]);
    expect(blob.json).toEqual({ n: 1 });
    expect(Object.keys(blob.metadata)).toEqual(["asc_journal"]);
    expect(blob.stored).toMatchObject({ tags: {}, headers: { blobContentType: "application/json" } });
    expect(blob.stored?.headers.blobCacheControl).toBeUndefined();
    expect(service.operations).toEqual(["download", "upload"]);
    // The group goes on from the new blob.
    await optimisticUpdate<Counter>(blob, increment);
    expect(Object.keys(blob.metadata)).toEqual(["asc_journal"]);
  });
});

describe("the journal of a target that one process writes", () => {
  it.each(["update", "overwrite and update", "transaction"])("has one id after 40 writes: %s", async (kind) => {
    const { blob } = counterBlob();
    const table = new FakeTransactionTable(new FakeService());
    table.put({ n: { type: "Int32", value: 0 } }, "p", "r");
    for (let round = 0; round < 40; round++) {
      if (kind === "transaction") await runTransaction(table, "p", (tx) => tx.update({ rowKey: "r", n: round }));
      else await optimisticUpdate<Counter>(blob, increment);
      if (kind === "overwrite and update" && round === 20) await overwrite(blob, { n: 0 });
    }
    const text = kind === "transaction" ? String(table.property("asc_journal", "p", "r")?.value) : blob.metadata["asc_journal"];
    expect(text?.split("~")[3]?.split(".").filter((entry) => entry !== "")).toHaveLength(1);
  });
});

describe("the journal of a target that is nearly full", () => {
  const ids = (text: string | undefined): number => text?.split("~")[3]?.split(".").length ?? 0;

  it("shrinks to what the metadata of a blob leaves", async () => {
    const { blob } = counterBlob();
    blob.put({ n: 0 }, { metadata: { big: "x".repeat(8_000) } });
    for (let round = 0; round < 40; round++) await optimisticUpdate<Counter>(blob, increment);
    expect(blob.json).toEqual({ n: 40 });
    const size = Object.entries(blob.metadata).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    expect(size).toBeLessThanOrEqual(8_192);
    expect(ids(blob.metadata["asc_journal"])).toBeGreaterThan(5);
    // A lost response is still recognised.
    blob.service.next("upload", loseAnswer);
    await optimisticUpdate<Counter>(blob, increment);
    expect(blob.json).toEqual({ n: 41 });
  });

  it("is an error if not even one id fits, and nothing is written; journal: false writes", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { metadata: { big: "x".repeat(8_180) } });
    const error = await rejection(optimisticUpdate<Counter>(blob, increment));
    expect(error).toBeInstanceOf(LimitError);
    expect(error).toMatchObject({ code: "JOURNAL_LIMIT", limit: "metadata", url: blob.url });
    expect(error.message).toContain("journal: false");
    expect(await rejection(optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1")))).toMatchObject({ code: "JOURNAL_LIMIT" });
    expect(service.count("write")).toBe(0);
    await optimisticUpdate<Counter>(blob, increment, { journal: false });
    expect(blob.json).toEqual({ n: 1 });
  });

  it("shrinks to what an entity of nearly 1 MiB leaves", async () => {
    const table = new FakeTable(new FakeService());
    const target = tableEntity<{ n: number }>(table, "p", "r");
    const half = 32_000;
    // 16 properties of 64,000 bytes each, and one that fills the rest but for some ids.
    const full = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`p${String(i).padStart(2, "0")}`, { type: "String", value: "x".repeat(half) }]));
    const rest = 1_048_576 - (4 + 4 + 16 * (8 + 6 + half * 2 + 4) + (8 + 2 + 4) + (8 + 8 + 4)) - 400;
    // 32 writes of another process, whose ids this one does not drop.
    const journal = `1~abc~32~${Array.from({ length: 32 }, (_, i) => `foreign-${String(i).padStart(4, "0")}`).join(".")}`;
    table.put({ ...full, asc_journal: { type: "String", value: journal }, n: { type: "Int32", value: 0 }, rest: { type: "String", value: "x".repeat(rest / 2) } });
    await optimisticUpdate(target, (draft) => { draft.n++; });
    expect(table.property("n")?.value).toBe(1);
    const text = String(table.property("asc_journal")?.value);
    expect(8 + 22 + text.length * 2 + 4).toBeLessThanOrEqual(400);
    expect(ids(text)).toBeGreaterThan(3);
  });

  it("is an error for an entity with 252 properties", async () => {
    const table = new FakeTable(new FakeService());
    table.put(Object.fromEntries(Array.from({ length: 252 }, (_, i) => [`p${i}`, { type: "Int32", value: i }])));
    const target = tableEntity<{ p0: number; p1?: number }>(table, "p", "r");
    const error = await rejection(optimisticUpdate(target, (draft) => { draft.p0++; }));
    expect(error).toMatchObject({ code: "JOURNAL_LIMIT", limit: "properties" });
    await optimisticUpdate(target, (draft) => { draft.p0++; }, { journal: false });
    await optimisticUpdate(target, (draft) => { delete draft.p1; });
    expect(table.property("p0")?.value).toBe(1);
    expect(table.property("asc_journal")).toBeDefined();
  });
});
