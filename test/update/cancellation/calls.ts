import type { Random } from "../../../integration/chaos/random.js";
import type { AppendBlobLike, BlockBlobLike, TableLike } from "../../../src/index.js";
import { appendExactlyOnce, createIfNotExists, deleteIfUnchanged, isConcurrencyError, jsonBlob, leasedUpdate, optimisticUpdate, overwrite, runTransaction, tableEntity } from "../../../src/index.js";

/** What one call works on. */
export interface Clients {
  /** Updates only: nothing that was added disappears. */
  readonly list: BlockBlobLike;
  /** For overwrites, creates and deletes. */
  readonly mixed: BlockBlobLike;
  /** Has the rows `a` and `b` in the partition `p`. */
  readonly table: TableLike;
  readonly log: AppendBlobLike;
  /** The ETag of `mixed`, if it exists. */
  readonly currentETag: () => string | undefined;
}

export const kinds = ["optimisticUpdate", "leasedUpdate", "update entity", "runTransaction", "appendExactlyOnce", "overwrite", "createIfNotExists", "deleteIfUnchanged"] as const;
export type Kind = (typeof kinds)[number];

/** One call, and what its caller was told. */
export interface Call {
  readonly kind: Kind;
  /** Unique: what the call adds to what is stored. */
  readonly token: string;
  readonly behaviour: Behaviour;
  readonly timeoutInMs: number;
  readonly place: "list" | "mixed";
  /** The version that a delete is about. */
  etag?: string;
  outcome?: "resolved" | "nothing written" | "unknown" | "defect";
  /** The outcome of a resolved call, or the rejection. */
  told?: string;
  tookInMs?: number;
}

/** What the caller's function does. */
type Behaviour = "adds" | "adds slowly" | "throws" | "throws slowly" | "hangs";

class Refusal extends Error {
  override readonly name = "Refusal";
}

interface Document {
  tokens: string[];
}

export function drawCall(random: Random, token: string, kind: Kind = random.pick(kinds)): Call {
  return {
    kind,
    token,
    behaviour: random.pick<Behaviour>(["adds", "adds", "adds", "adds", "adds", "adds slowly", "adds slowly", "throws", "throws slowly", "hangs"]),
    timeoutInMs: random.pick([random.between(1, 50), random.between(50, 500), 3_000, 10_000, 20_000]),
    place: random.pick(["list", "mixed"]),
  };
}

/** Makes the call, and notes its outcome. Never rejects. */
export async function makeCall(call: Call, clients: Clients, random: Random, signal: AbortSignal): Promise<void> {
  const started = performance.now();
  try {
    call.told = await send(call, clients, random, signal);
    call.outcome = "resolved";
  } catch (error) {
    call.outcome = outcomeOf(error, signal);
    call.told = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  }
  call.tookInMs = performance.now() - started;
}

/** What a rejection says by the guarantees. An error of the service is passed on only if nothing was written. */
function outcomeOf(error: unknown, signal: AbortSignal): Exclude<Call["outcome"], undefined | "resolved"> {
  if (signal.aborted && error === signal.reason) return "unknown";
  if (isConcurrencyError(error)) return error.committed === "unknown" ? "unknown" : "nothing written";
  return error instanceof Refusal || (error instanceof Error && error.name === "RestError") ? "nothing written" : "defect";
}

async function send(call: Call, { list, mixed, table, log, currentETag }: Clients, random: Random, abortSignal: AbortSignal): Promise<string> {
  const { token, timeoutInMs } = call;
  const options = { abortSignal, timeoutInMs };
  const coalesce = random.next() < 0.6;
  const delayInMs = random.between(1, 150);
  const document = jsonBlob<Document>(call.place === "list" ? list : mixed);
  const mutate = (add: () => void): undefined | Promise<undefined> => behave(call.behaviour, delayInMs, add);
  switch (call.kind) {
    case "optimisticUpdate":
      return (await optimisticUpdate(document, (draft) => mutate(() => draft.tokens.push(token)), { ...options, coalesce, initial: { tokens: [] } })).outcome;
    case "leasedUpdate":
      return (await leasedUpdate(document, (draft) => mutate(() => draft.tokens.push(token)), { ...options, initial: { tokens: [] } })).outcome;
    case "update entity":
      return (
        await optimisticUpdate(tableEntity<{ tokens: string }>(table, "p", "a"), (draft) => mutate(() => (draft.tokens += ` ${token}`)), { ...options, coalesce })
      ).outcome;
    case "runTransaction":
      await runTransaction<{ tokens: string }>(
        table,
        "p",
        async (tx) => {
          const rows = await tx.getMany(["a", "b"]);
          await mutate(() => undefined);
          for (const row of rows) tx.update({ rowKey: row!.rowKey, tokens: `${row!.tokens} ${token}` });
        },
        { ...options, coalesce },
      );
      return "committed";
    case "appendExactlyOnce":
      await appendExactlyOnce(log, `${token}\n`, { ...options, coalesce });
      return "appended";
    case "overwrite":
      await overwrite(jsonBlob<Document>(mixed), { tokens: [token] }, options);
      return "written";
    case "createIfNotExists":
      return (await createIfNotExists(jsonBlob<Document>(mixed), { tokens: [token] }, options)).outcome;
    case "deleteIfUnchanged": {
      const etag = currentETag();
      if (etag === undefined) return "nothing to delete";
      call.etag = etag;
      await deleteIfUnchanged(jsonBlob<Document>(mixed), etag, options);
      return "deleted";
    }
  }
}

function behave(behaviour: Behaviour, delayInMs: number, add: () => void): undefined | Promise<undefined> {
  const act = (): void => {
    add();
    if (behaviour.startsWith("throws")) throw new Refusal("the caller's function threw");
  };
  if (behaviour === "hangs") return new Promise(() => undefined);
  if (behaviour.endsWith("slowly")) return new Promise((resolve) => setTimeout(resolve, delayInMs)).then(act).then(() => undefined);
  act();
  return undefined;
}
