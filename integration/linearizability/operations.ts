import type { TableClient } from "@azure/data-tables";
import type { BlockBlobClient } from "@azure/storage-blob";
import type * as AzureStorageConcurrency from "azure-storage-concurrency";

import type { Random } from "../chaos/random.js";
import type { Input, Output, Row } from "./history.js";

/** The library under test: its source, its build, or a build that was broken on purpose. */
export type Library = typeof AzureStorageConcurrency;

/** What is stored, in a document or in an entity. Tables have no arrays. */
interface Stored {
  tokens: string;
}

/** One object: a blob, or two entities in a partition of their own. */
export type ObjectClients =
  | { readonly kind: "blob"; readonly blob: BlockBlobClient }
  | { readonly kind: "entity"; readonly table: TableClient; readonly partitionKey: string };

/** The options of one call. */
export interface CallOptions {
  readonly timeoutInMs: number;
  readonly coalesce: boolean;
  readonly abortSignal?: AbortSignal;
}

/** Makes the call that the input describes. Rejects as the library does. */
export async function perform(library: Library, object: ObjectClients, input: Input, options: CallOptions): Promise<Output> {
  if ("row" in input) return performOnRow(library, object, input, options);
  if (object.kind === "blob") throw new TypeError("a blob has no transactions");
  return performTransaction(library, object, input, options);
}

async function performOnRow(library: Library, object: ObjectClients, input: Extract<Input, { row: Row }>, options: CallOptions): Promise<Output> {
  const target = targetOf(library, object, input.row);
  const { coalesce, ...timed } = options;
  const updated = (mutator: Parameters<typeof library.optimisticUpdate<Stored>>[1], initial?: Stored): Promise<Output> =>
    library.optimisticUpdate<Stored>(target, mutator, { ...timed, coalesce, ...(initial && { initial }) }).then((result) => valueOf(result.value, result.outcome));
  switch (input.op) {
    case "read": {
      const found = await library.tryReadTarget(target, timed);
      return found ? valueOf(found.value, undefined, found.etag) : { kind: "value", tokens: null };
    }
    case "update":
      return updated((draft) => {
        draft.tokens = withToken(draft.tokens, input.token);
      }, input.initial ? { tokens: "" } : undefined);
    case "keep":
      return updated(() => undefined);
    case "delete":
      return updated(() => library.DELETE);
    case "create": {
      const { value, outcome, etag } = await library.createIfNotExists(target, { tokens: input.token }, timed);
      return valueOf(value, outcome, outcome === "unchanged" ? etag : undefined);
    }
    case "deleteIfUnchanged":
      await library.deleteIfUnchanged(target, input.etag, timed);
      return { kind: "done" };
    case "overwrite":
      await library.overwrite(target, { tokens: input.token }, timed);
      return { kind: "done" };
  }
}

function performTransaction(
  library: Library,
  { table, partitionKey }: Extract<ObjectClients, { kind: "entity" }>,
  input: Extract<Input, { op: `transact ${string}` }>,
  options: CallOptions,
): Promise<Output> {
  return library.runTransaction<Stored, Output>(
    table,
    partitionKey,
    async (tx) => {
      if (input.op === "transact create") {
        tx.create({ rowKey: "main", tokens: input.token });
        return { kind: "done" };
      }
      const [main, second] = await tx.getMany(["main", "second"]);
      const add = (rowKey: Row, before: Stored | undefined): void => {
        if ("token" in input) tx.upsert({ rowKey, tokens: withToken(before?.tokens ?? "", input.token) });
      };
      if (input.op === "transact add") add("main", main);
      if (input.op === "transact move" && main) tx.delete("main");
      if (input.op === "transact add" || (input.op === "transact move" && main)) add("second", second);
      return { kind: "rows", main: main ? tokensOf(main) : null, second: second ? tokensOf(second) : null };
    },
    options,
  );
}

/** What the rejection says; undefined: it is unknown whether something was written. Throws what no call should reject with. */
export function outputOf(library: Library, error: unknown, input: Input): Output | undefined {
  if (library.isConcurrencyError(error)) {
    if (error.committed === "unknown") return undefined;
    if (error.code === "TARGET_NOT_FOUND") return { kind: "not found" };
    if (error.code === "ALREADY_EXISTS") return { kind: "already exists" };
    if (error.code === "CONFLICT" && input.op === "deleteIfUnchanged") return { kind: "changed" };
    return { kind: "rejected", error: error.name };
  }
  // Passed on as the SDK threw it: by the guarantees, nothing was written then.
  if (error instanceof Error && error.name === "RestError") return { kind: "rejected", error: "RestError" };
  throw error;
}

/** The next call of a client. `known`: the last version that it has read of this object, if any. */
export function drawInput(random: Random, kind: ObjectClients["kind"], token: string, known: Known | undefined): Input {
  const row: Row = kind === "entity" && random.next() < 0.15 ? "second" : "main";
  const transactions: Input[] =
    kind === "blob" ? [] : [{ op: "transact add", token }, { op: "transact add", token }, { op: "transact read" }, { op: "transact move", token }, { op: "transact create", token }];
  const version = known && ({ op: "deleteIfUnchanged", ...known } as const);
  return random.pick<Input>([
    { op: "read", row },
    { op: "read", row },
    { op: "read", row },
    { op: "update", row, token, initial: false },
    { op: "update", row, token, initial: false },
    { op: "update", row, token, initial: true },
    { op: "update", row, token, initial: true },
    { op: "keep", row },
    { op: "create", row, token },
    { op: "create", row, token },
    { op: "delete", row },
    { op: "overwrite", row, token },
    ...(version ? [version, version] : []),
    ...transactions,
  ]);
}

/** A version that a client has read: what it needs for a conditional delete. */
export interface Known {
  readonly row: Row;
  readonly tokens: readonly string[];
  readonly etag: string;
}

/** What a client knows after a call. */
export function knownAfter(input: Input, output: Output | undefined): Known | undefined {
  if (input.op !== "read" || output?.kind !== "value" || output.tokens === null || output.etag === undefined) return undefined;
  return { row: input.row, tokens: output.tokens, etag: output.etag };
}

function targetOf(library: Library, object: ObjectClients, row: Row): AzureStorageConcurrency.UpdateTarget<Stored> {
  if (object.kind === "blob") return library.jsonBlob<Stored>(object.blob);
  // The operations use only what a document and an entity have in common.
  return library.tableEntity<Stored>(object.table, object.partitionKey, row) as unknown as AzureStorageConcurrency.UpdateTarget<Stored>;
}

function valueOf(value: Stored, outcome: string | undefined, etag?: string): Output {
  return { kind: "value", tokens: tokensOf(value), ...(outcome && { outcome }), ...(etag && { etag }) };
}

export function tokensOf({ tokens }: Stored): readonly string[] {
  return tokens.split(",").filter((token) => token !== "");
}

export function withToken(tokens: string, token: string): string {
  return tokens === "" ? token : `${tokens},${token}`;
}
