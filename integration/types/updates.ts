import { DELETE, jsonBlob, jsonFile, leasedUpdate, optimisticUpdate, queueMetadata, readTarget, tableEntity, textBlob } from "azure-storage-concurrency";
import type { BlobLocks, LeaseHandle, Mutator, MutatorContext, UpdateResult } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { blob, container, file, queue, settingsSchema, table } from "./storage.js";
import type { Counter, Customer, Settings, Shape } from "./storage.js";

export async function inferTheValueOfABlob(): Promise<void> {
  const fromInitial = await optimisticUpdate(blob, (draft) => void draft.count++, { initial: { count: 0 } });
  typeOf(fromInitial).is<UpdateResult<{ count: number }>>();

  const fromFunction = await optimisticUpdate(blob, (draft) => void draft.count++, { initial: () => ({ count: 0 }) });
  typeOf(fromFunction.value).is<{ count: number }>();

  const fromParameter = await optimisticUpdate(blob, (draft: Counter) => void draft.count++);
  typeOf(fromParameter.value).is<Counter>();

  const fromArgument = await optimisticUpdate<Shape>(blob, () => ({ kind: "circle", radius: 1 }));
  typeOf(fromArgument.value).is<Shape>();

  const nothingKnown = await optimisticUpdate(blob, () => {});
  typeOf(nothingKnown.value).is<unknown>();

  // @ts-expect-error The value is unknown.
  await optimisticUpdate(blob, (draft) => void draft.count++);
  // @ts-expect-error The type argument decides.
  await optimisticUpdate<Counter>(blob, (draft) => void draft.count++, { initial: { count: "none" } });
  // @ts-expect-error A container has no content.
  await optimisticUpdate(container, () => {});
}

export async function returnANewValue(): Promise<void> {
  const shape = jsonBlob<Shape>(blob);
  // Literals of a discriminated union keep their type, in all forms of a function.
  const sync = await optimisticUpdate(shape, () => ({ kind: "circle", radius: 1, tags: [1] }));
  typeOf(sync.value).is<Shape>();
  const async = await optimisticUpdate(shape, async (draft) => (draft.kind === "circle" ? { kind: "label", text: "x" } : { kind: "circle", radius: 2 }));
  typeOf(async.value).is<Shape>();
  await optimisticUpdate(shape, async (draft) => {
    if (draft.kind === "circle") return { kind: "label", text: "x" };
    return DELETE;
  });
  await optimisticUpdate(shape, (draft) => (draft.kind === "circle" ? undefined : DELETE));
  await optimisticUpdate(shape, () => Object.freeze({ kind: "circle", radius: 1 }));
  await optimisticUpdate(shape, () => ({ kind: "circle", radius: 1 }) as const);
  await optimisticUpdate(jsonBlob<number[]>(blob), (draft): readonly number[] => [...draft, 1]);
  await optimisticUpdate(textBlob(blob), (text) => `${text}.`);
  const counted = await optimisticUpdate(blob, (draft) => ({ count: draft.count + 1 }), { initial: { count: 0 } });
  typeOf(counted.value).is<{ count: number }>();

  // @ts-expect-error `push` returns a number, which is not the value.
  await optimisticUpdate(jsonBlob<{ items: number[] }>(blob), (draft) => draft.items.push(1));
  // @ts-expect-error No member of the union.
  await optimisticUpdate(shape, () => ({ kind: "square", radius: 1 }));
  // @ts-expect-error A property is missing.
  await optimisticUpdate(shape, () => ({ kind: "circle" }));
  // @ts-expect-error The same for a promise.
  await optimisticUpdate(shape, async () => ({ kind: "circle" }));
  // @ts-expect-error Absence is undefined, and a value is deleted with DELETE.
  await optimisticUpdate(shape, () => null);
  // @ts-expect-error What a mutator returns does not choose the type.
  await optimisticUpdate(blob, () => ({ count: "1" }), { initial: { count: 0 } });
}

export async function useTheTypeOfTheTarget(): Promise<void> {
  const settings = await optimisticUpdate(jsonBlob(blob, { schema: settingsSchema }), (draft) => void draft.count++, { initial: { count: 1, name: "x" } });
  typeOf(settings.value).is<Settings>();

  const entity = tableEntity<Customer>(table, "customers", "42");
  const updated = await optimisticUpdate(
    entity,
    (draft) => {
      typeOf(draft.rowKey).is<string>();
      draft.visits++;
    },
    { initial: { email: "x", visits: 0 } },
  );
  typeOf(updated.value.partitionKey).is<string>();

  // @ts-expect-error A schema's input type is not its output type: `count` is needed.
  await optimisticUpdate(jsonBlob(blob, { schema: settingsSchema }), () => ({ name: "x" }));
  // @ts-expect-error The initial value has another type.
  await optimisticUpdate(entity, () => {}, { initial: { email: "x" } });
  // @ts-expect-error The keys of an entity cannot be changed.
  await optimisticUpdate(entity, (draft) => void (draft.rowKey = "43"));
  // @ts-expect-error A file has no ETag conditions.
  await optimisticUpdate(jsonFile<Counter>(file), (draft) => void draft.count++);
}

export async function useTheResult(): Promise<void> {
  const result = await optimisticUpdate(jsonBlob<Counter>(blob), () => undefined);
  typeOf(result.outcome).is<"created" | "updated" | "unchanged" | "deleted">();
  typeOf(result.etag).is<string | undefined>();
  if (result.outcome === "deleted") {
    typeOf(result.etag).is<undefined>();
    // @ts-expect-error A target that was deleted has no ETag.
    result.etag satisfies string;
  } else {
    typeOf(result.etag).is<string>();
  }
  typeOf(result.attempts).is<number>();
  // @ts-expect-error Results are readonly.
  result.value = { count: 1 };
  // @ts-expect-error Results are readonly.
  result.attempts = 1;
  // @ts-expect-error Results are readonly.
  result.outcome = "updated";
}

export async function passOptions(abortSignal: AbortSignal): Promise<void> {
  await optimisticUpdate(blob, () => {}, {
    abortSignal,
    timeoutInMs: 1_000,
    maxAttempts: 3,
    retryDelayInMs: 1,
    maxRetryDelayInMs: 10,
    onUnknown: "retry",
    conditions: { leaseId: "x" },
    journal: false,
    coalesce: false,
    initial: undefined,
  });
  await optimisticUpdate(jsonBlob<Counter>(blob), () => {}, { startFrom: await readTarget(jsonBlob<Counter>(blob)), journal: "writes" });

  // @ts-expect-error Misspelt: durations end in InMs.
  await optimisticUpdate(blob, () => {}, { timeoutMs: 3 });
  // @ts-expect-error A signal that is passed in is called abortSignal.
  await optimisticUpdate(blob, () => {}, { signal: abortSignal });
  // @ts-expect-error There are two choices.
  await optimisticUpdate(blob, () => {}, { onUnknown: "ignore" });
  // @ts-expect-error What is read from another target is no start.
  await optimisticUpdate(jsonBlob<Counter>(blob), () => {}, { startFrom: await readTarget(textBlob(blob)) });
  // @ts-expect-error Options are not null.
  await optimisticUpdate(blob, () => {}, null);
}

export async function updateUnderALease(lease: LeaseHandle, locks: BlobLocks): Promise<void> {
  const counter = await leasedUpdate(jsonFile<Counter>(file), (draft) => void draft.count++, { initial: { count: 0 }, crashGuard: locks });
  typeOf(counter).is<UpdateResult<Counter>>();
  const shape = await leasedUpdate(jsonFile<Shape>(file), () => ({ kind: "circle", radius: 1 }), { lease });
  typeOf(shape.value).is<Shape>();
  const bare = await leasedUpdate(blob, (draft) => void draft.count++, { initial: { count: 0 }, waitInMs: 0, maxAttempts: 2, timeoutInMs: 5, journal: false });
  typeOf(bare.value).is<{ count: number }>();
  const metadata = await leasedUpdate(queueMetadata(queue), (draft) => void (draft["a"] = "b"), { lock: { locks, name: "queue" } });
  typeOf(metadata.value).is<Record<string, string>>();
  await leasedUpdate(jsonBlob<Counter>(blob), (draft) => void draft.count++);

  // @ts-expect-error The call creates its target from `initial`.
  await leasedUpdate(blob, () => {}, { createIfNotExists: true });
  // @ts-expect-error A lease that the caller holds is passed as `lease`.
  await leasedUpdate(blob, () => {}, { leaseId: "x" });
  // @ts-expect-error A lock has a name.
  await leasedUpdate(queueMetadata(queue), () => {}, { lock: { locks } });
  // @ts-expect-error No ETag condition is used, so there is no version to start from.
  await leasedUpdate(jsonFile<Counter>(file), () => {}, { startFrom: { value: { count: 1 }, etag: "x" } });
}

export function writeMutators(context: MutatorContext): Mutator<Counter>[] {
  typeOf(context.signal).is<AbortSignal>();
  // @ts-expect-error Contexts are readonly.
  context.attempt = 1;
  return [(draft) => void draft.count++, async ({ count }, { attempt, signal }) => ({ count: count + attempt + Number(signal.aborted) }), () => DELETE, () => undefined];
}
