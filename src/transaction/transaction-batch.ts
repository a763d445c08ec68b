import type { TableLike } from "../clients/table.js";
import { isThenable, waitOrDetach, WriteCall } from "../core/pending-call.js";
import type { WriteCallSettings } from "../core/pending-call.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import type { EdmType } from "../target/edm.js";
import { partitionUrl } from "../target/stored-entity.js";
import { limitOf, operationsOf } from "./operations.js";
import type { PartitionView } from "./partition-view.js";
import type { RowOptions } from "./row.js";
import { NeedsCleanViewError, TransactionRun } from "./transaction.js";
import type { Transaction } from "./transaction.js";

/** The settings that the transactions of one queue share. */
export interface PartitionSettings {
  readonly table: TableLike;
  readonly credentialScope: object;
  readonly partitionKey: string;
  readonly detectPhantoms: boolean;
  readonly coalesce: boolean;
}

/** The outcome of a transaction. `"unchanged"`: the function changed nothing, and nothing was written. */
export interface TransactionResult {
  /** What the function returned. */
  readonly value: unknown;
  readonly outcome: "committed" | "unchanged";
}

export interface TransactionSettings extends WriteCallSettings {
  readonly types: Readonly<Record<string, EdmType>>;
}

/** One caller of `runTransaction`, and its function. */
export class TransactionCall extends WriteCall<TransactionResult, TransactionSettings> {
  readonly fn: (tx: Transaction) => unknown;
  /** Read a row before inserting it: a failed insert does not return the existing entity. */
  readBeforeInsert = false;

  constructor(fn: (tx: Transaction) => unknown, settings: TransactionSettings) {
    super(settings);
    this.fn = fn;
  }
}

type Step =
  | { readonly kind: "returned"; readonly value: unknown; readonly changed: boolean }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "postponed" }
  | { readonly kind: "detached"; readonly done: Promise<unknown> }
  | { readonly kind: "abandoned" };

/** How long other callers wait for a function that does more than read rows. */
const detachAfterInMs = 1_000;

/** One pass over the waiting transactions: each runs on what those before it wrote, and one that fails has no effect. */
export class TransactionBatch {
  readonly view: PartitionView;
  readonly #calls: readonly TransactionCall[];
  readonly #settings: PartitionSettings;
  readonly #steps: Step[] = [];

  constructor(view: PartitionView, calls: readonly TransactionCall[], settings: PartitionSettings) {
    this.view = view;
    this.#calls = calls;
    this.#settings = settings;
  }

  async run(requestOptions: () => RowOptions, moreAreWaiting: () => boolean): Promise<void> {
    let full = false;
    for (const [index, call] of this.#calls.entries()) {
      if (full) {
        this.#steps.push({ kind: "postponed" });
        continue;
      }
      const hasOtherWaiters = (): boolean => this.#calls.some((other, at) => at !== index && !other.isSettled()) || moreAreWaiting();
      const step: Step = call.isSettled() ? { kind: "abandoned" } : await this.#runOne(call, index > 0, requestOptions, hasOtherWaiters);
      this.#steps.push(step);
      full = step.kind === "postponed";
    }
  }

  async #runOne(call: TransactionCall, notFirst: boolean, requestOptions: () => RowOptions, hasOtherWaiters: () => boolean): Promise<Step> {
    const { table, partitionKey, detectPhantoms } = this.#settings;
    const rollBack = this.view.savepoint();
    const before = this.view.written;
    call.attempts++;
    const tx = new TransactionRun(this.view, table, partitionKey, {
      options: requestOptions,
      types: call.settings.types,
      detectPhantoms,
      readBeforeInsert: call.readBeforeInsert,
      call,
    });
    try {
      let value = call.fn(tx);
      if (isThenable(value)) {
        const waited = await waitOrDetach(value, call, hasOtherWaiters, detachAfterInMs);
        if (waited.kind !== "done") {
          rollBack("postponed");
          return waited;
        }
        value = waited.result;
      }
      await tx.finish();
      if (call.isSettled()) {
        rollBack("postponed");
        return { kind: "abandoned" };
      }
      if (tx.needsCleanView) throw new NeedsCleanViewError(); // the function caught the first one
      // Together with those before it, it exceeds the limits of one request: it has to wait for the next batch.
      if (notFirst && limitOf(operationsOf(this.view, partitionKey, detectPhantoms), this.view.written, partitionKey, "")) {
        rollBack("postponed");
        return this.#postpone(call);
      }
      return { kind: "returned", value, changed: differs(before, this.view.written) };
    } catch (error) {
      if (tx.needsCleanView) {
        rollBack("postponed");
        return this.#postpone(call);
      }
      rollBack("failed");
      return { kind: "failed", error };
    } finally {
      tx.close();
    }
  }

  #postpone(call: TransactionCall): Step {
    call.attempts--;
    return { kind: "postponed" };
  }

  settleAll(outcome: "committed" | "unchanged"): void {
    for (const [index, call] of this.#calls.entries()) {
      const step = this.#steps[index];
      if (step?.kind === "failed") call.reject(toConcurrencyError(step.error, partitionUrl(this.#settings.table, this.#settings.partitionKey)));
      if (step?.kind !== "returned") continue;
      const result = { value: step.value, outcome: step.changed ? outcome : ("unchanged" as const) };
      call.resolve(result, result.outcome);
    }
  }

  /** The calls that get their result from this batch and are not settled. */
  unsettled(): TransactionCall[] {
    return this.#calls.filter((call, index) => {
      const kind = this.#steps[index]?.kind;
      return !call.isSettled() && (kind === "returned" || kind === "failed");
    });
  }

  /** The calls whose changes are part of the write. */
  writers(): TransactionCall[] {
    return this.#calls.filter((_, index) => {
      const step = this.#steps[index];
      return step?.kind === "returned" && step.changed;
    });
  }

  /** The calls that have to wait for the next batch. */
  postponed(): TransactionCall[] {
    return this.#calls.filter((call, index) => !call.isSettled() && this.#steps[index]?.kind === "postponed");
  }

  /** Whether a function of the batch may still be running. */
  hasRunningFunctions(): boolean {
    return this.#steps.some(({ kind }) => kind === "detached" || kind === "abandoned");
  }

  /** The calls whose functions are still running, each with a promise of its end. */
  detached(): [TransactionCall, Promise<unknown>][] {
    return this.#calls.flatMap((call, index) => {
      const step = this.#steps[index];
      return step?.kind === "detached" ? [[call, step.done] as [TransactionCall, Promise<unknown>]] : [];
    });
  }
}

function differs<V>(before: ReadonlyMap<string, V>, after: ReadonlyMap<string, V>): boolean {
  return before.size !== after.size || [...after].some(([key, value]) => before.get(key) !== value);
}
