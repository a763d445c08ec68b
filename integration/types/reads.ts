import * as asc from "azure-storage-concurrency";
import type { ConsistentDownload, Entity, ReadIfChangedResult, ReadResult, UpdateResult, Watch, WatchState } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { anyBlob, appendBlob, blob, file, pageBlob, queue, settingsSchema, table } from "./storage.js";
import type { Counter, Customer, Settings, Shape } from "./storage.js";

const customer = asc.tableEntity<Customer>(table, "customers", "42");

export async function readATarget(abortSignal: AbortSignal): Promise<void> {
  const read = await asc.readTarget(customer, { abortSignal, timeoutInMs: 10, conditions: { leaseId: "x" } });
  typeOf(read).is<ReadResult<Entity<Customer>>>();
  typeOf(read.etag).is<string>();
  typeOf(await asc.readTarget(blob)).is<ReadResult<unknown>>();
  typeOf(await asc.readTarget<Counter>(blob)).is<ReadResult<Counter>>();
  typeOf(await asc.readTarget(asc.jsonFile(file, { schema: settingsSchema }))).is<ReadResult<Settings>>();

  typeOf(await asc.tryReadTarget(customer)).is<ReadResult<Entity<Customer>> | undefined>();
  typeOf((await asc.tryReadTarget(asc.textFile(file)))?.value).is<string | undefined>();

  // @ts-expect-error Results are readonly.
  read.value = { partitionKey: "customers", rowKey: "42", email: "x", visits: 0 };
  // @ts-expect-error `readIfChanged` is a call of its own.
  await asc.readTarget(customer, { ifNoneMatch: "x" });
  // @ts-expect-error `tryReadTarget` may return undefined.
  (await asc.tryReadTarget(customer)).value;
  // @ts-expect-error No target.
  await asc.readTarget({ kind: "blob", url: "https://example.org" });
}

export async function readWhatChanged(): Promise<void> {
  const result = await asc.readIfChanged(customer, "etag");
  typeOf(result).is<ReadIfChangedResult<Entity<Customer>>>();
  typeOf(result.etag).is<string>();
  if (result.changed) typeOf(result.value).is<Entity<Customer>>();
  else typeOf(result.value).is<undefined>();

  // @ts-expect-error The value is there only if it changed.
  result.value.visits;
  // @ts-expect-error The ETag is needed.
  await asc.readIfChanged(customer);
  // @ts-expect-error An ETag is a string.
  await asc.readIfChanged(customer, undefined);
}

export async function writeOnce(): Promise<void> {
  typeOf(await asc.createIfNotExists(blob, { count: 1 })).is<UpdateResult<{ count: number }>>();
  typeOf(await asc.createIfNotExists(customer, { email: "x", visits: 0 })).is<UpdateResult<Entity<Customer>>>();
  typeOf(await asc.createIfNotExists(asc.jsonBlob<Shape>(blob), { kind: "circle", radius: 1 })).is<UpdateResult<Shape>>();
  typeOf(await asc.createIfNotExists(asc.jsonFile<Shape>(file), { kind: "circle", radius: 1 })).is<UpdateResult<Shape>>();

  const written = await asc.overwrite(customer, { email: "x", visits: 0 });
  typeOf(written.etag).is<string>();
  await asc.overwrite(asc.jsonBlob<Shape>(blob), { kind: "label", text: "x" });
  await asc.overwrite(blob, { anything: 1 });
  await asc.overwrite(asc.jsonFile<Counter>(file), { count: 1 });

  typeOf(await asc.deleteIfUnchanged(customer, "etag")).is<void>();
  await asc.deleteIfUnchanged(blob, "etag", { timeoutInMs: 10 });

  // @ts-expect-error A property is missing.
  await asc.createIfNotExists(customer, { email: "x" });
  // @ts-expect-error No member of the union.
  await asc.overwrite(asc.jsonBlob<Shape>(blob), { kind: "square" });
  // @ts-expect-error Results are readonly.
  written.etag = "x";
  // @ts-expect-error The ETag is needed.
  await asc.deleteIfUnchanged(blob);
  // @ts-expect-error A file has no ETag conditions.
  await asc.deleteIfUnchanged(asc.jsonFile<Counter>(file), "etag");
}

export async function watchATarget(abortSignal: AbortSignal): Promise<void> {
  typeOf(asc.watch(customer)).is<Watch<Entity<Customer>>>();
  await using states = asc.watch(asc.jsonBlob<Counter>(blob), { abortSignal, pollIntervalInMs: 10, maxPollIntervalInMs: 20, maxFailureTimeInMs: 30, onError: (error) => void error });
  for await (const state of states) {
    typeOf(state).is<WatchState<Counter>>();
    if (state.exists) {
      typeOf(state.value).is<Counter>();
      typeOf(state.etag).is<string>();
    } else {
      typeOf(state.value).is<undefined>();
      typeOf(state.etag).is<undefined>();
    }
    // @ts-expect-error States are readonly.
    state.exists = false;
  }
  const next = await states.next();
  if (!next.done) typeOf(next.value).is<WatchState<Counter>>();

  // @ts-expect-error A watch has no time limit; it has a signal.
  asc.watch(customer, { timeoutInMs: 10 });
  // @ts-expect-error The value may be missing.
  for await (const { value } of asc.watch(customer)) value.visits;
}

export async function download(): Promise<void> {
  const whole = await asc.downloadConsistent(anyBlob, { onChange: "restart", maxRestarts: 3, blockSizeInBytes: 10, concurrency: 2, maxSizeInBytes: 100 });
  typeOf(whole).is<ConsistentDownload>();
  typeOf(whole.content).is<Uint8Array>();
  typeOf(whole.contentType).is<string | undefined>();
  for (const client of [blob, appendBlob, pageBlob]) await asc.downloadConsistent(client);
  const stream = await asc.downloadConsistentStream(blob, { onProgress: ({ loadedBytes, totalBytes, restarts }) => void (loadedBytes + totalBytes + restarts) });
  typeOf(stream.content).is<ReadableStream<Uint8Array>>();

  // @ts-expect-error A stream cannot start again.
  await asc.downloadConsistentStream(blob, { onChange: "restart" });
  // @ts-expect-error Results are readonly.
  whole.content = new Uint8Array();
  // @ts-expect-error Metadata is readonly.
  whole.metadata["a"] = "b";
  // @ts-expect-error A queue has no content.
  await asc.downloadConsistent(queue);
}
