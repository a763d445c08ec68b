import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions, PurgeResult } from "../clients/call.js";
import type { TransactionActionLike } from "../clients/table.js";
import { linkSignals } from "../core/deadline.js";
import { observed } from "../core/pending-call.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, LeaseLostError, SchemaError } from "../errors.js";
import { actionsBesideRecord, commitOnce } from "../queue/inbox/commit-once.js";
import type { CommitResult } from "../queue/inbox/commit-inbox.js";
import { readRecord } from "../queue/inbox/record.js";
import { ownRowPrefix, quoted } from "../target/library-rows.js";
import { checkKey } from "../target/table-entity.js";
import { purgeRows } from "../transaction/purge-rows.js";
import { intended } from "./job-state.js";
import type { RunState } from "./job-state.js";
import type { JobStore } from "./job-store.js";
import type { JobContext } from "./schedule-options.js";

/** The row keys of all receipts begin with this. They are in the partitions of the effects. */
export const receiptPrefix: string = `${ownRowPrefix}schedule-done!`;

const readTimeoutInMs = 30_000;
const optionNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };

/** The run of one attempt, as its commits need it. */
export interface CommitScope {
  readonly store: JobStore;
  readonly job: string;
  readonly run: RunState;
  readonly signal: AbortSignal;
  readonly assertHeld: () => void;
  readonly tracingOptions: OperationTracingOptions;
}

/** What became of the commits of a run. */
export type CommitsResult = { readonly kind: "none" | "committed" } | { readonly kind: "failed"; readonly error: unknown };

/**
 * The commits of one attempt of a run. The transaction creates a receipt with the id of the attempt, so it can be committed once. Before it
 * is sent, its partition is stored in the row of the job: an instance that takes over finds the receipt there, or creates an empty one in its place, which
 * keeps a transaction that is still in flight from being committed.
 */
export class RunCommits {
  readonly #scope: CommitScope;
  #inFlight: Promise<unknown> | undefined;
  #partitionInDoubt: string | undefined;
  #result: CommitsResult = { kind: "none" };

  constructor(scope: CommitScope) {
    this.#scope = scope;
  }

  readonly commit: JobContext["commit"] = (partitionKey, actions, options = {}) => {
    const committing = async (): Promise<CommitResult> => {
      checkOptions("commit", options, optionNames);
      checkKey("partitionKey", partitionKey);
      const prepared = actionsBesideRecord(partitionKey, actions);
      if (this.#inFlight || this.#result.kind === "committed") throw new TypeError("commit: a run can commit once, and this one has, or does so at this moment.");
      if (this.#partitionInDoubt !== undefined && this.#partitionInDoubt !== partitionKey) throw new TypeError("commit: the outcome of an earlier commit into another partition is unknown. Throw its error.");
      const inFlight = this.#commit(partitionKey, prepared, options);
      this.#inFlight = inFlight;
      try {
        return await inFlight;
      } finally {
        this.#inFlight = undefined;
      }
    };
    return observed(committing());
  };

  /** Waits for a commit in flight, and determines the outcome of one that is in doubt. */
  async settle(): Promise<CommitsResult> {
    await this.#inFlight?.catch(() => undefined);
    const partition = this.#partitionInDoubt;
    if (partition !== undefined && this.#result.kind === "failed") {
      const { store, job, run } = this.#scope;
      if ((await settleReceipt(store, job, { ...run, partition })) === "committed") this.#result = { kind: "committed" };
    }
    return this.#result;
  }

  async #commit(partitionKey: string, actions: readonly TransactionActionLike[], options: CallOptions): Promise<CommitResult> {
    const { store, job, run, signal, assertHeld, tracingOptions } = this.#scope;
    const { controller, unlink } = linkSignals(signal, options.abortSignal);
    const call = { abortSignal: controller.signal, tracingOptions: options.tracingOptions ?? tracingOptions };
    try {
      assertHeld();
      const isHeld = (): boolean => !controller.signal.aborted;
      if (!(await store.persist(job, (state) => intended(state, run.id, partitionKey), isHeld, call))) throw this.#lostError();
      this.#partitionInDoubt = partitionKey;
      const key = receiptOf(store, job, run.id, partitionKey);
      const { result } = await commitOnce(store.table, { ...key, record: { ...key.record, owner: ownerOf(run.id) }, actions, outgoing: [] }, call);
      // Only the instance that took over creates another receipt for this attempt.
      if (result === "duplicate") throw this.#lostError();
      this.#result = { kind: "committed" };
      return result;
    } catch (error) {
      this.#result = { kind: "failed", error };
      if (isKnown(error)) this.#partitionInDoubt = undefined;
      throw error;
    } finally {
      unlink();
    }
  }

  #lostError(): LeaseLostError {
    const { store, job } = this.#scope;
    const message = `The commit of a run of the job ${JSON.stringify(job)} in ${store.url} wrote nothing: another instance has taken over the run.`;
    return createError(LeaseLostError, message, { url: store.url, reason: "stolen", committed: false });
  }
}

/** Whether the error says that nothing was committed. An abort does not: the transaction may have been sent. */
function isKnown(error: unknown): boolean {
  return isConcurrencyError(error, "LEASE_LOST") && error.committed === false;
}

/**
 * Determines whether an attempt has committed, and keeps it from doing so later: creates an empty receipt in the place of its own.
 * @throws {@link SchemaError} if another program has changed the receipt.
 */
export async function settleReceipt(store: JobStore, job: string, { id, partition }: Pick<RunState, "id" | "partition">): Promise<"committed" | "void"> {
  if (partition === undefined) return "void";
  const key = receiptOf(store, job, id, partition);
  const request = { abortSignal: new AbortController().signal, tracingOptions: {} };
  const { result } = await commitOnce(store.table, { ...key, record: { ...key.record, owner: `${voidOwner}${crypto.randomUUID()}` }, actions: [], outgoing: [] }, request);
  if (result === "committed") return "void";
  const found = await readRecord(store.table, partition, key.rowKey, readTimeoutInMs);
  if (found?.owner === ownerOf(id)) return "committed";
  if (found?.owner.startsWith(voidOwner)) return "void";
  const message = `The receipt of a run of the job ${JSON.stringify(job)} in ${store.url} cannot be read: another program has changed or deleted it.`;
  throw createError(SchemaError, message, { url: store.url, phase: "read", issues: [{ message: "owner" }], etag: found?.etag });
}

const dayInMs = 86_400_000;

/** Deletes old receipts of runs that have ended. */
export async function purgeReceipts(store: JobStore, olderThanInMs: number = 8 * dayInMs, options: CallOptions): Promise<PurgeResult> {
  const ageInMs = checkNumber("olderThanInMs", olderThanInMs, { min: dayInMs / 24, max: Date.now() });
  const prefix = `${receiptPrefix}${store.name}!`;
  const filter = `RowKey ge ${quoted(prefix)} and RowKey lt ${quoted(`${prefix}~`)}`;
  // A run can only begin after this read with an id that has no receipt yet.
  const running = new Set<string>();
  // Of a job whose row is damaged, any receipt may be that of the run in progress.
  const kept: string[] = [];
  for (const found of (await store.look(options)).values()) {
    try {
      running.add(store.stateOf(found).run?.id ?? "");
    } catch {
      kept.push(`${prefix}${found.name}!`);
    }
  }
  const mayDelete = ({ rowKey }: { readonly rowKey: string }): boolean => !running.has(rowKey.slice(rowKey.lastIndexOf("!") + 1)) && !kept.some((receipts) => rowKey.startsWith(receipts));
  return purgeRows("Schedule.purge", store.table, { filter, ageInMs }, options, (row) => Promise.resolve(mayDelete(row)));
}

const voidOwner = "void/";

function ownerOf(id: string): string {
  return `run/${id}`;
}

function receiptOf(store: JobStore, job: string, id: string, partitionKey: string): ReceiptKey {
  return { partitionKey, rowKey: `${receiptPrefix}${store.name}!${job}!${id}`, idempotencyKey: id, record: { messageId: id, dequeueCount: 1, payloadHash: "run" } };
}

interface ReceiptKey {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly idempotencyKey: string;
  readonly record: { readonly messageId: string; readonly dequeueCount: number; readonly payloadHash: string };
}
