import { describe, expect, it, vi } from "vitest";

import { blobMetadata, jsonBlob, optimisticUpdate, tableEntity } from "../../src/index.js";
import type { SchemaResult, StandardSchemaLike } from "../../src/index.js";
import { adapterOf } from "../../src/target/target.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

type Validate = (value: unknown) => SchemaResult<Counter> | Promise<SchemaResult<Counter>>;

const valid: Validate = (value) => ({ value: value as Counter });

function schemaOf(validate: Validate): StandardSchemaLike<Counter> {
  return { "~standard": { version: 1, vendor: "test", validate } };
}

const never = (): Promise<SchemaResult<Counter>> => new Promise(() => undefined);

describe("a schema check that never ends", () => {
  it("on reading holds up those who waited for it, until their time is over, and nobody else", async () => {
    const { blob } = counterBlob();
    const validate = vi.fn<Validate>(valid).mockImplementationOnce(never);
    const target = jsonBlob<Counter>(blob, { schema: schemaOf(validate) });
    const stuck = rejection(optimisticUpdate(target, increment, { timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(50);
    // Comes while the check hangs, and is there when the one before it gives up.
    const later = optimisticUpdate(target, increment, { timeoutInMs: 1_000 });
    await vi.advanceTimersByTimeAsync(60);
    expect(await stuck).toMatchObject({ name: "OperationTimeoutError" });
    expect((await later).value).toEqual({ n: 1 });
  });

  it("on writing holds up its own caller alone", async () => {
    const { blob } = counterBlob();
    let checks = 0;
    // The first is that of the read.
    const target = jsonBlob<Counter>(blob, { schema: schemaOf((value) => (++checks === 2 ? never() : valid(value))) });
    const stuck = rejection(optimisticUpdate(target, increment, { timeoutInMs: 500 }));
    const other = optimisticUpdate(target, increment, { timeoutInMs: 400 });
    await vi.advanceTimersByTimeAsync(500);
    expect((await other).value).toEqual({ n: 1 });
    expect(await stuck).toMatchObject({ name: "OperationTimeoutError" });
  });
});

describe("a defect of an adapter", () => {
  it("reaches whoever waits, and the next update works", async () => {
    const { blob } = counterBlob();
    const target = jsonBlob<Counter>(blob);
    const adapter = adapterOf(target) as unknown as { decode: (raw: unknown) => unknown };
    const { decode } = adapter;
    let decoded = 0;
    // The mutator gets its copy; what throws is the making of the result, which comes before the write.
    adapter.decode = (raw) => {
      if (++decoded === 2) throw new Error("defect");
      return decode(raw);
    };
    const [failed, other] = [rejection(optimisticUpdate(target, increment)), optimisticUpdate(target, increment)];
    expect((await failed).message).toBe("defect");
    expect((await other).value).toEqual({ n: 1 });
    expect((await optimisticUpdate(target, increment)).value).toEqual({ n: 2 });
  });
});

describe("messages say what to do", () => {
  it("about the metadata of a blob that is not there", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    const error = await rejection(optimisticUpdate(blobMetadata(blob), () => ({ a: "1" })));
    expect(error).toMatchObject({ name: "TargetNotFoundError" });
    expect(error.message).toContain("does not exist: create the blob first");
  });

  it.each([
    { what: "a lease that is not there", stored: undefined, message: /is not leased/ },
    { what: "a lease of another client", stored: "theirs", message: /is leased by another client/ },
  ])("about $what", async ({ stored, message }) => {
    const { blob } = counterBlob();
    blob.stored!.leaseId = stored;
    const error = await rejection(optimisticUpdate<Counter>(blob, increment, { conditions: { leaseId: "mine" } }));
    expect(error).toMatchObject({ name: "LeaseUnavailableError" });
    expect(error.message).toMatch(message);
  });

  it.each([
    { what: "jsonBlob", make: () => jsonBlob(undefined as never), message: "jsonBlob needs a BlockBlobClient; got undefined." },
    { what: "blobMetadata", make: () => blobMetadata(null as never), message: "blobMetadata needs a blob client; got null." },
    { what: "tableEntity", make: () => tableEntity("orders" as never, "p", "r"), message: "tableEntity needs a TableClient; got string." },
  ])("about a $what of nothing", ({ make, message }) => {
    expect(make).toThrow(new TypeError(message));
  });

  it.each(["etag", "timestamp"])("about an entity whose %s a mutator sets", async (name) => {
    const table = new FakeTable(new FakeService());
    table.put({ n: { type: "Int32", value: 1 } });
    const update = optimisticUpdate(tableEntity(table, "p", "r"), (entity) => {
      entity[name] = "x";
    });
    expect(await rejection(update)).toMatchObject({ name: "TypeError", message: `The service sets ${name}: leave it out of the entity.` });
  });
});
