import { waitOrDetach } from "../core/pending-call.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { writeOfOperation } from "../target/journal.js";
import { partitionUrl } from "../target/stored-entity.js";
import type { TransactionCompanion } from "./companion.js";
import { outcomeOfOperation } from "./commit-transaction.js";
import type { IdentifiedOperation } from "./commit-transaction.js";
import { limitOf, operationsOf } from "./operations.js";
import type { Operation, OperationCache } from "./operations.js";
import type { Overlay } from "./overlay.js";
import type { PartitionView } from "./partition-view.js";
import { operationsRowKey } from "./row.js";
import type { RowOptions } from "./row.js";
import { RunOrder } from "./run-order.js";
import type { FinishedRun, FunctionResult, PartitionSettings, TransactionCall } from "./transaction-call.js";
import { TransactionRun } from "./transaction-run.js";
import type { Transaction } from "./transaction.js";

/** A function that runs, or has run, in this batch or in one before it. `close` ends the use of its `tx`. */
interface Run {
  readonly overlay: Overlay;
  readonly startedAt: number;
  readonly ended: Promise<FunctionResult>;
  readonly mustRestart: () => boolean;
  readonly close: () => void;
  isMerged: boolean;
  /** How its function ended, if that is known. */
  result: FunctionResult | undefined;
}

type Step =
  | { readonly kind: "returned"; readonly value: unknown; readonly changed: boolean }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "postponed" }
  | { readonly kind: "detached"; readonly done: Promise<unknown> }
  | { readonly kind: "abandoned" };

/** How long other callers wait for a function. */
const detachAfterInMs = 1_000;
/** How often at most it is checked whether other callers wait. */
const minWaitInMs = 50;

/** The time for the functions of a batch. After it none is started, or runs again, except that each batch completes one at least. */
const maxBatchTimeInMs = 200;

/**
 * One pass over the waiting transactions. Their functions run at the same time, so that they read their rows in parallel. They are
 * merged in order, each on what those before it wrote, and one that fails has no effect.
 */
export class TransactionBatch {
  readonly view: PartitionView;
  readonly #calls: readonly TransactionCall[];
  readonly #settings: PartitionSettings;
  readonly #requestOptions: () => RowOptions;
  readonly #order: RunOrder;
  readonly #startedAt = performance.now();
  readonly #runs: (Run | undefined)[] = [];
  readonly #started: TransactionRun[] = [];
  readonly #steps: Step[] = [];
  readonly #operations: OperationCache = new Map();
  readonly #identified: IdentifiedOperation[] = [];

  constructor(view: PartitionView, calls: readonly TransactionCall[], settings: PartitionSettings, requestOptions: () => RowOptions) {
    this.view = view;
    this.#calls = calls;
    this.#settings = settings;
    this.#requestOptions = requestOptions;
    this.#order = new RunOrder(() => this.#isOver());
  }

  async run(moreAreWaiting: () => boolean): Promise<void> {
    try {
      await this.#loadReceipts();
      for (const [position, call] of this.#calls.entries()) this.#runs.push(this.#begin(position, call));
      for (const [position, call] of this.#calls.entries()) {
        const hasOtherWaiters = (): boolean => this.#calls.some((other) => other !== call && !other.isSettled()) || moreAreWaiting();
        const step = await this.#complete(position, call, hasOtherWaiters);
        this.#steps.push(step);
        this.#order.settle(position, step.kind === "returned" || step.kind === "failed" ? this.#runs[position]?.overlay : undefined);
      }
    } finally {
      for (const run of this.#runs) run?.close();
      this.#order.settleAll();
    }
  }

  #isOver(): boolean {
    return performance.now() - this.#startedAt >= maxBatchTimeInMs;
  }

  /** Together, as one request reads several rows. If it fails, each run reads its own, and reports the failure. */
  async #loadReceipts(): Promise<void> {
    const rowKeys = this.#calls.flatMap(({ readReceipt, settings }) => (readReceipt && settings.receipt ? [settings.receipt.rowKey] : []));
    if (rowKeys.length > 1) await this.view.load([...new Set(rowKeys)], this.#requestOptions()).catch(() => undefined);
  }

  /** Undefined: not in this batch. */
  #begin(position: number, call: TransactionCall): Run | undefined {
    const { finished } = call;
    call.finished = undefined;
    if (call.isSettled()) return undefined;
    if (finished && this.view.accepts(finished.overlay)) {
      call.attempts++;
      this.#order.set(position, finished.overlay);
      const ended = Promise.resolve(finished.result);
      return { overlay: finished.overlay, startedAt: this.#startedAt, ended, mustRestart: () => false, close: () => undefined, isMerged: false, result: undefined };
    }
    if (position > 0 && this.#isOver()) return undefined;
    call.attempts++;
    return this.#start(position, call);
  }

  #start(position: number, call: TransactionCall): Run {
    const { table, partitionKey, detectPhantoms } = this.#settings;
    const tx = new TransactionRun(this.view, table, partitionKey, {
      options: this.#requestOptions,
      types: call.settings.types,
      detectPhantoms,
      readBeforeInsert: call.readBeforeInsert,
      predecessors: this.#order.before(position),
      call,
    });
    this.#order.set(position, tx.overlay);
    this.#started.push(tx);
    return {
      overlay: tx.overlay,
      startedAt: performance.now(),
      ended: runFunction(call.fn, tx),
      mustRestart: () => tx.mustRestart,
      close: () => tx.close(),
      isMerged: false,
      result: undefined,
    };
  }

  /** Waits for the function of a call and merges what it did; runs it again first if those before it have changed what it read. */
  async #complete(position: number, call: TransactionCall, hasOtherWaiters: () => boolean): Promise<Step> {
    let run = this.#runs[position];
    if (!run) return { kind: call.isSettled() ? "abandoned" : "postponed" };
    for (;;) {
      // Not the time since its turn came: other callers have waited for it from its start.
      const timeLeft = Math.max(minWaitInMs, detachAfterInMs - (performance.now() - run.startedAt));
      const waited = await waitOrDetach(run.ended, call, hasOtherWaiters, timeLeft);
      if (waited.kind !== "done") {
        run.close();
        return waited;
      }
      if (call.isSettled()) return { kind: "abandoned" };
      if (run.mustRestart()) return this.#postpone(call);
      if (this.view.accepts(run.overlay)) return this.#merge(run, waited.result, call);
      if (position > 0 && this.#isOver()) return this.#postpone(call);
      run = this.#runs[position] = this.#start(position, call);
    }
  }

  #merge(run: Run, result: FunctionResult, call: TransactionCall): Step {
    const { operation } = call.settings;
    run.result = result;
    // Checked once more: a function that was not repeated has seen an older state.
    if (operation && this.#isApplied(operation)) return { kind: "returned", value: this.#valueOf(operation, call), changed: false };
    const isFirst = this.view.touched.size === 0;
    const undo = this.view.merge(run.overlay, result.kind === "failed");
    // Together with those before it, it exceeds the limits of one request: it has to wait for the next batch.
    const operations = isFirst ? [] : this.operations();
    if (this.mustCommit(operations) && limitOf(operations, this.view.written, this.#settings.partitionKey, "")) {
      undo();
      return this.#postpone(call, { overlay: run.overlay, result });
    }
    run.isMerged = true;
    if (result.kind === "failed") return result;
    for (const other of this.#runs) if (other && !other.isMerged) other.overlay.noteWrites(run.overlay.writes.keys());
    const changed = run.overlay.writes.size > 0;
    if (changed && operation) this.#identified.push(operation);
    return { ...result, changed };
  }

  #isApplied(operation: IdentifiedOperation): boolean {
    if (this.#identified.some(({ id }) => id === operation.id)) return true;
    return outcomeOfOperation(operation, (rowKey) => this.view.row(rowKey)) === "committed";
  }

  /** The value of a commit of this call, whose outcome was unknown until now. Undefined: another call has applied the operation. */
  #valueOf({ id }: IdentifiedOperation, { unknownValues }: TransactionCall): unknown {
    return unknownValues?.get(writeOfOperation(this.view.row(operationsRowKey).journal, id) ?? "");
  }

  /** The outcome of the commit is unknown: its callers get their values if a later batch finds it. */
  keepValues(writeId: string): void {
    for (const [index, call] of this.#calls.entries()) {
      const step = this.#steps[index];
      if (step?.kind === "returned" && step.changed) (call.unknownValues ??= new Map()).set(writeId, step.value);
    }
  }

  /** The operation ids of the writers. */
  get operationIds(): readonly string[] {
    return this.#identified.map(({ id }) => id);
  }

  /** Whether a writer repeats a write that may still arrive and create this row: as long as its tombstone is there, that fails. */
  mustKeepTombstone({ rowKey, base }: Operation): boolean {
    return base.etag === undefined && this.#identified.some(({ witness }) => witness === rowKey);
  }

  /** Whether there is something to write. The ids of operations are written even if what these did cancels out. */
  mustCommit(operations: readonly Operation[]): boolean {
    return this.#identified.length > 0 || operations.some(({ changes }) => changes);
  }

  /** One for each row that the merged transactions have read or written. */
  operations(): Operation[] {
    const { partitionKey, detectPhantoms } = this.#settings;
    return operationsOf(this.view, partitionKey, detectPhantoms, this.#operations);
  }

  /** @param finished - What its function did, if that is not to be repeated. */
  #postpone(call: TransactionCall, finished?: FinishedRun): Step {
    call.attempts--;
    call.finished = finished;
    return { kind: "postponed" };
  }

  /** Takes the calls out of this batch. A function runs again only if something that it has read is different in the next one. */
  withdraw(): TransactionCall[] {
    const calls = this.unsettled();
    for (const call of calls) {
      const position = this.#calls.indexOf(call);
      // Not the result of its step: that of a repetition is empty, and what it repeats may have been withdrawn for good.
      const { overlay, result } = this.#runs[position] ?? {};
      if (overlay && result) this.#postpone(call, { overlay, result });
    }
    return calls;
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

  /** The companions of the writers. */
  companions(): TransactionCompanion[] {
    const writers = new Set(this.writers());
    return this.#calls.flatMap((call, index) => (writers.has(call) ? (this.#runs[index]?.overlay.companions ?? []) : []));
  }

  /** The calls that have to wait for the next batch. */
  postponed(): TransactionCall[] {
    return this.#calls.filter((call, index) => !call.isSettled() && this.#steps[index]?.kind === "postponed");
  }

  /** Whether reads are in flight that no result depends on: of functions that were not waited for, or that did not wait. */
  hasPendingReads(): boolean {
    return this.#started.some((tx) => tx.isReading);
  }

  /** The calls whose functions are still running, each with a promise of its end. */
  detached(): [TransactionCall, Promise<unknown>][] {
    return this.#calls.flatMap((call, index) => {
      const step = this.#steps[index];
      return step?.kind === "detached" ? [[call, step.done] as [TransactionCall, Promise<unknown>]] : [];
    });
  }
}

/** Never rejects. */
async function runFunction(fn: (tx: Transaction) => unknown, tx: TransactionRun): Promise<FunctionResult> {
  try {
    const repetition = tx.isRepetition();
    if (repetition && (await repetition)) return { kind: "returned", value: undefined };
    const value = await fn(tx);
    await tx.finish();
    return { kind: "returned", value };
  } catch (error) {
    return { kind: "failed", error };
  } finally {
    tx.close();
  }
}
