import { PendingCall } from "../core/pending-call.js";
import type { PendingCallSettings } from "../core/pending-call.js";
import { explain } from "../core/storage-errors.js";
import { isThenable, waitFor } from "../core/wait-or-detach.js";
import type { EdmType } from "../target/edm.js";
import { partitionUrl } from "../target/stored-entity.js";
import { limitOf, operationsOf } from "./operations.js";
import type { PartitionView } from "./partition-view.js";
import type { RowOptions } from "./row.js";
import type { PartitionSettings } from "./transaction-queue.js";
import { NeedsCleanView, Transaction } from "./transaction.js";

type Step =
  | { readonly kind: "returned"; readonly value: unknown; readonly changed: boolean }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "postponed" }
  | { readonly kind: "aside"; readonly done: Promise<unknown> }
  | { readonly kind: "gone" };

/** How long others wait for a function that does something else than to read rows. */
const patienceInMs = 1_000;

/** One pass over the waiting transactions: each runs on what those before it wrote, and one that fails leaves no trace. */
export class TransactionRound {
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
      const othersWait = (): boolean => this.#calls.some((other, at) => at !== index && !other.settled) || moreAreWaiting();
      const step: Step = call.settled ? { kind: "gone" } : await this.#runOne(call, index > 0, requestOptions, othersWait);
      this.#steps.push(step);
      full = step.kind === "postponed";
    }
  }

  async #runOne(call: TransactionCall, notFirst: boolean, requestOptions: () => RowOptions, othersWait: () => boolean): Promise<Step> {
    const { table, partitionKey, guardQueries } = this.#settings;
    const rollBack = this.view.savepoint();
    const before = this.view.written;
    call.attempts++;
    const tx = new Transaction(this.view, table, partitionKey, {
      options: requestOptions,
      types: call.settings.types,
      guardQueries,
      careful: call.careful,
    });
    try {
      let value = call.fn(tx);
      if (isThenable(value)) {
        const waited = await waitFor(value, call, othersWait, patienceInMs);
        if (waited.kind !== "done") {
          rollBack("put off");
          return waited;
        }
        value = waited.result;
      }
      await tx.finish();
      if (hasSettled(call)) {
        rollBack("put off");
        return { kind: "gone" };
      }
      if (tx.needsCleanView) throw new NeedsCleanView(); // caught by the function, which could not know what it means
      // Together with those before it, it is more than fits into one request: it has to wait for the next.
      if (notFirst && limitOf(operationsOf(this.view, partitionKey, guardQueries), this.view.written, partitionKey)) {
        rollBack("put off");
        return this.#postpone(call);
      }
      return { kind: "returned", value, changed: differs(before, this.view.written) };
    } catch (error) {
      if (tx.needsCleanView) {
        rollBack("put off");
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
      if (step?.kind === "failed") call.reject(explain(step.error, partitionUrl(this.#settings.table, this.#settings.partitionKey)));
      if (step?.kind !== "returned") continue;
      call.resolve({ value: step.value, outcome: step.changed ? outcome : "unchanged", attempts: call.attempts });
    }
  }

  /** The calls that want a result of this round. */
  unsettled(): TransactionCall[] {
    return this.#calls.filter((call, index) => {
      const kind = this.#steps[index]?.kind;
      return !call.settled && (kind === "returned" || kind === "failed");
    });
  }

  /** The calls that have a part in what is to be written. */
  changers(): TransactionCall[] {
    return this.#calls.filter((_, index) => {
      const step = this.#steps[index];
      return step?.kind === "returned" && step.changed;
    });
  }

  /** The calls that have to wait for the next round. */
  postponed(): TransactionCall[] {
    return this.#calls.filter((call, index) => !call.settled && this.#steps[index]?.kind === "postponed");
  }

  /** The calls whose functions are still running, and when each has ended. */
  asides(): [TransactionCall, Promise<unknown>][] {
    return this.#calls.flatMap((call, index) => {
      const step = this.#steps[index];
      return step?.kind === "aside" ? [[call, step.done] as [TransactionCall, Promise<unknown>]] : [];
    });
  }
}

function differs<V>(before: ReadonlyMap<string, V>, after: ReadonlyMap<string, V>): boolean {
  return before.size !== after.size || [...after].some(([key, value]) => before.get(key) !== value);
}

/** Asked anew after an await. */
function hasSettled(call: { readonly settled: boolean }): boolean {
  return call.settled;
}

/** What a transaction did. */
export interface TransactionResult<R> {
  /** What the function returned. */
  value: R;
  /** `"unchanged"`: the function changed nothing, and nothing was written. */
  outcome: "committed" | "unchanged";
  /** How often the function ran. */
  attempts: number;
}

export interface TransactionSettings extends PendingCallSettings {
  readonly types: Readonly<Record<string, EdmType>>;
}

/** One caller of `runTransaction`, and its function. */
export class TransactionCall extends PendingCall<TransactionResult<unknown>, TransactionSettings> {
  readonly fn: (tx: Transaction) => unknown;
  /** Read before creating: an insert that failed does not tell what it found. */
  careful = false;

  constructor(fn: (tx: Transaction) => unknown, settings: TransactionSettings) {
    super(settings);
    this.fn = fn;
  }
}
