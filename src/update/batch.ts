import { eventLoopTurn, watchEventLoop } from "../core/deadline.js";
import { isThenable, observed, waitOrDetach, WriteCall } from "../core/pending-call.js";
import type { WriteCallSettings } from "../core/pending-call.js";
import { createError, TargetNotFoundError } from "../errors.js";
import { forgottenError, hasOperation, isForgotten, maxOperationIds, newWriteId, writeOfOperation } from "../target/journal.js";
import type { Snapshot, ServiceAdapter } from "../target/target.js";
import { DELETE } from "./mutator.js";
import type { Mutator, MutatorContext, UpdateResult } from "./mutator.js";

/** The options of one update after defaults and checks. */
export interface CallSettings<T, Raw> extends WriteCallSettings {
  readonly initial: T | (() => T) | undefined;
  readonly ifMatch?: string | undefined;
  readonly startFrom: Snapshot<Raw> | undefined;
}

/** One caller of an update, and its mutator. */
export class UpdateCall<T, Raw> extends WriteCall<UpdateResult<T>, CallSettings<T, Raw>> {
  readonly mutator: Mutator<T>;
  /**
   * What its mutator did in the writes of unknown outcome, by their ids. If one of them is found later, other clients may have written on
   * top of it: what is stored then is not what this call left, and a counter that it advanced may be that of another caller.
   */
  unknownSteps: Map<string, Change<T, Raw>> | undefined;

  constructor(mutator: Mutator<T>, settings: CallSettings<T, Raw>) {
    super(settings);
    this.mutator = mutator;
  }
}

/** A state that is known to be stored. */
export interface Base<Raw> {
  /** Undefined: the target does not exist. */
  readonly snapshot: Snapshot<Raw> | undefined;
  /** The logical time at which the request was sent that returned it. */
  readonly readAt: number;
  /** Whether its value is known to match the schema. */
  readonly checked: boolean;
}

/** The time for the mutators of a batch, except that each batch runs one at least: another client that writes meanwhile costs them all. */
const maxBatchTimeInMs = 200;

/** After this time without a pause the other work of the process gets its turn: timers that renew leases, for example. */
const maxBlockInMs = 20;

/** One pass over the waiting calls: applies their mutators in order to one draft, and keeps the result of each. */
export class Batch<T, Raw> {
  readonly #adapter: ServiceAdapter<T, Raw>;
  readonly #calls: readonly UpdateCall<T, Raw>[];
  readonly #steps: Step<T, Raw>[] = [];
  /** What each mutator was given. */
  readonly #before: (Raw | undefined)[] = [];
  /** The state after all mutators; undefined: the target is to be deleted. */
  draft: Raw | undefined;
  #lastWriter = -1;
  /** Identifies the write in the journal. */
  readonly writeId: string = newWriteId();
  /** The operations of the batch that callers gave an id. */
  readonly #operationIds: string[] = [];

  constructor(adapter: ServiceAdapter<T, Raw>, calls: readonly UpdateCall<T, Raw>[]) {
    this.#adapter = adapter;
    this.#calls = calls;
  }

  /** Whether any mutator changed anything. */
  get hasChanges(): boolean {
    return this.#lastWriter >= 0;
  }

  /** Whether one mutator deleted the target and a later one created it again: nothing of the deleted one is to be kept. */
  get isRecreated(): boolean {
    return this.#before[0] !== undefined && this.#steps.some((step) => step.kind === "changed" && step.created);
  }

  /**
   * Runs the mutators one after the other; each sees the changes of those before it. One that fails has no effect. When the time
   * of a batch is over, the remaining calls are postponed: with large documents, all at once would block the event loop.
   */
  async apply(base: Base<Raw>, moreAreWaiting: () => boolean): Promise<void> {
    const blocked = this.#calls.length > 1 ? watchEventLoop() : undefined;
    try {
      await this.#applyAll(base, moreAreWaiting, blocked?.forInMs ?? (() => 0));
    } finally {
      blocked?.stop();
    }
  }

  async #applyAll(base: Base<Raw>, moreAreWaiting: () => boolean, blockedForInMs: () => number): Promise<void> {
    const started = performance.now();
    this.draft = base.snapshot?.raw;
    for (const [index, call] of this.#calls.entries()) {
      if (index > 0 && performance.now() - started >= maxBatchTimeInMs) return;
      if (blockedForInMs() >= maxBlockInMs) await eventLoopTurn();
      const { operationId } = call;
      if (operationId !== undefined && this.#operationIds.length >= maxOperationIds) return;
      const hasOtherWaiters = (): boolean =>
        this.#calls.some((other, at) => at !== index && !other.isSettled()) || moreAreWaiting();
      const step: Step<T, Raw> = call.isSettled() ? { kind: "abandoned" } : await this.#applyOne(call, base, hasOtherWaiters);
      this.#before.push(this.draft);
      this.#steps.push(step);
      if (step.kind !== "changed" && step.kind !== "deleted") continue;
      if (operationId !== undefined) this.#operationIds.push(operationId);
      this.draft = step.kind === "changed" ? step.raw : undefined;
      this.#lastWriter = index;
    }
  }

  /** The ids that the write stores in the journal for later repetitions. */
  get operationIds(): readonly string[] {
    return this.#operationIds;
  }

  async #applyOne(call: UpdateCall<T, Raw>, base: Base<Raw>, hasOtherWaiters: () => boolean): Promise<Step<T, Raw>> {
    if (this.#isRepetition(call, base)) return this.#repeat(call, base);
    const { operationId, onUnknown } = call.settings;
    if (operationId !== undefined && onUnknown === "throw" && isForgotten(base.snapshot, operationId)) {
      call.rejectUnknown(forgottenError());
      return { kind: "abandoned" };
    }
    call.attempts++;
    call.inFlight = false;
    call.currentETag = base.snapshot?.etag;
    const step = await applyMutator(this.#adapter, call, this.draft, hasOtherWaiters);
    if (call.isSettled()) return { kind: "abandoned" };
    if (call.mayHaveCommitted && call.settings.onUnknown === "throw" && (step.kind === "changed" || step.kind === "deleted")) {
      // What is stored may be its own change. A mutator that leaves it as it is is content with either; this one would apply it twice.
      call.rejectUnknown(undefined);
      return { kind: "abandoned" };
    }
    // The mutator saw only what is stored, and that was read after the call was enqueued: its error is final, whatever the
    // outcome of the other calls. Otherwise the call waits with them: the draft that it rejected may never be stored.
    if (step.kind === "failed" && !this.hasChanges && call.enqueuedAt <= base.readAt) call.reject(step.error);
    return step;
  }

  /** Whether an earlier call with its operation id was applied: in the stored history, or in this batch. */
  #isRepetition({ operationId }: UpdateCall<T, Raw>, { snapshot }: Base<Raw>): boolean {
    if (operationId === undefined) return false;
    return this.#operationIds.includes(operationId) || hasOperation(snapshot?.journal, operationId, this.#adapter.journalScope);
  }

  /**
   * The result of a repetition: the current value. If a call of this batch has deleted the target: what it was before that. For a write of
   * this call, whose outcome was unknown until now: what it wrote.
   */
  #repeat({ operationId = "", unknownSteps }: UpdateCall<T, Raw>, { snapshot }: Base<Raw>): Step<T, Raw> {
    const change = unknownSteps?.get(writeOfOperation(snapshot?.journal, operationId, this.#adapter.journalScope) ?? "");
    if (change) {
      const isStored = snapshot !== undefined && !this.hasChanges && change.kind === "changed" && this.#adapter.equals(snapshot.raw, change.raw);
      return { kind: "recognised", change, isStored };
    }
    const raw = this.draft ?? this.#before.findLast((before) => before !== undefined) ?? snapshot?.raw;
    try {
      return { kind: "unchanged", value: this.#adapter.decode(raw as Raw) };
    } catch (error) {
      return { kind: "failed", error };
    }
  }

  /** Settles every call. `now`: what is stored after the last step; undefined: it has been superseded. */
  settleAll(now: Snapshot<Raw> | undefined): void {
    for (const index of this.#calls.keys()) this.#settle(index, now);
  }

  /**
   * For a batch that needs no write. Settles the calls that were enqueued before the state was read, and returns the others. None is
   * settled if one of the others changed something: it runs again on another state, so that what the first ones did was neither stored
   * nor undone. For example, one call creates the target, and one that came later deletes it.
   */
  settleUpTo(base: Base<Raw>): UpdateCall<T, Raw>[] {
    const isLate = (call: UpdateCall<T, Raw>): boolean => call.enqueuedAt > base.readAt;
    if (this.writers().some(isLate)) return this.unsettled();
    for (const [index, call] of this.#calls.entries()) if (!isLate(call)) this.#settle(index, base.snapshot);
    return this.unsettled();
  }

  /** The calls that are neither settled nor detached. */
  unsettled(): UpdateCall<T, Raw>[] {
    return this.#calls.filter((call, index) => !call.isSettled() && index < this.#steps.length && this.#steps[index]?.kind !== "detached");
  }

  /** The calls for which there was no time left: they are part of the next batch. */
  postponed(): UpdateCall<T, Raw>[] {
    return this.#calls.slice(this.#steps.length);
  }

  /** The calls whose changes are part of the write. */
  writers(): UpdateCall<T, Raw>[] {
    return this.#calls.filter((_, index) => this.#isChange(index));
  }

  /** The outcome of the write is unknown. Its callers get the results of this batch if a later one finds it in the journal. */
  keepSteps(): void {
    for (const [index, call] of this.#calls.entries()) {
      const step = this.#steps[index];
      if (step?.kind === "changed" || step?.kind === "deleted") (call.unknownSteps ??= new Map()).set(this.writeId, step);
    }
  }

  /** The calls whose mutators are still running, each with a promise of its end. */
  detached(): [UpdateCall<T, Raw>, Promise<unknown>][] {
    return this.#calls.flatMap((call, index) => {
      const step = this.#steps[index];
      return step?.kind === "detached" ? [[call, step.done] as [UpdateCall<T, Raw>, Promise<unknown>]] : [];
    });
  }

  #isChange(index: number): boolean {
    const kind = this.#steps[index]?.kind;
    return kind === "changed" || kind === "deleted";
  }

  #settle(index: number, now: Snapshot<Raw> | undefined): void {
    const call = this.#calls[index];
    const step = this.#steps[index];
    if (!call || !step) return;
    const adapter = this.#adapter;
    const superseded = index < this.#lastWriter;
    // With an ETag of a later version, the caller could overwrite that version without having seen it.
    const etag = superseded || !now || (step.kind === "recognised" && !step.isStored) ? adapter.staleETag : now.etag;
    // Without the place in the history: the process drops the id from the journal, so that a search for it would find nothing.
    const done = { attempts: call.attempts, operationId: call.settings.operationId ?? this.writeId };
    const resolve = (value: T, outcome: Exclude<UpdateResult<T>["outcome"], "deleted">): void =>
      call.resolve({ value, etag, outcome, ...done }, outcome);
    const settled = step.kind === "recognised" ? step.change : step;
    switch (settled.kind) {
      case "changed":
        resolve(settled.value, settled.created ? "created" : "updated");
        break;
      case "deleted":
        call.resolve({ value: settled.value, outcome: "deleted", ...done }, "deleted");
        break;
      case "unchanged":
        resolve(settled.value, "unchanged");
        break;
      case "not found":
        call.reject(
          createError(TargetNotFoundError, `${adapter.url} does not exist: ${adapter.notFoundAdvice ?? "pass initial to create it"}.`, { url: adapter.url }),
        );
        break;
      case "failed":
        call.reject(settled.error);
        break;
      case "detached":
      case "abandoned":
        break;
    }
  }
}

/**
 * What one mutator did to the draft. `value` is what its caller gets. It is made before the write is sent, because a codec of the
 * application may throw: after the commit, no error could say that nothing was written. And it is part of the time of the batch.
 */
type Step<T, Raw> =
  | Change<T, Raw>
  /** The initial value if the target does not exist and the mutator deletes it. */
  | { readonly kind: "unchanged"; readonly value: T }
  /** An earlier write of the call is stored. `isStored`: what it left is the state before this batch, which has not changed it. */
  | { readonly kind: "recognised"; readonly change: Change<T, Raw>; readonly isStored: boolean }
  /** The target does not exist, and there is no `initial`. */
  | { readonly kind: "not found" }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Too slow for the callers behind it; `done` resolves when the mutator has ended, whatever its result. */
  | { readonly kind: "detached"; readonly done: Promise<unknown> }
  /** Its caller has left. */
  | { readonly kind: "abandoned" };

/** The steps that are part of a write. */
type Change<T, Raw> =
  | { readonly kind: "changed"; readonly raw: Raw; readonly created: boolean; readonly value: T }
  | { readonly kind: "deleted"; readonly value: T };

/** The signal is made on demand: most mutators do not use it, and it costs more than the rest of the call. */
function contextOf(call: { readonly attempts: number; readonly signal: AbortSignal }): MutatorContext {
  return {
    attempt: call.attempts,
    get signal() {
      return call.signal;
    },
  };
}

/** How long other callers wait for an async mutator, the first time. */
const detachAfterInMs = 50;

/** Runs one caller's mutator on a private copy of the draft (undefined: the target does not exist). */
async function applyMutator<T, Raw>(
  adapter: Pick<ServiceAdapter<T, Raw>, "decode" | "encode" | "equals" | "validate">,
  call: UpdateCall<T, Raw>,
  draft: Raw | undefined,
  hasOtherWaiters: () => boolean,
): Promise<Step<T, Raw>> {
  const { initial } = call.settings;
  try {
    let start = draft;
    if (start === undefined) {
      if (initial === undefined) return { kind: "not found" };
      start = adapter.encode(typeof initial === "function" ? observed((initial as () => T)()) : initial, undefined);
    }
    const value = adapter.decode(start);
    const running = call.mutator(value, contextOf(call));
    let result: T | typeof DELETE | undefined;
    if (isThenable(running)) {
      const outcome = await waitOrDetach(running, call, hasOtherWaiters, detachAfterInMs);
      if (outcome.kind !== "done") return outcome;
      result = outcome.result as typeof result;
    } else result = running as typeof result;
    if (result === DELETE) return { kind: draft === undefined ? "unchanged" : "deleted", value: adapter.decode(start) };
    if (result !== undefined && result !== value) rejectChangedDraft(adapter, value, start);
    let raw = adapter.encode(result === undefined ? value : result, start);
    if (draft !== undefined && adapter.equals(draft, raw)) return { kind: "unchanged", value: adapter.decode(draft) };
    if (adapter.validate) {
      // A schema may be slow or hang, like a mutator.
      const outcome = await waitOrDetach(adapter.validate(raw, "write"), call, hasOtherWaiters, detachAfterInMs);
      if (outcome.kind !== "done") return outcome;
      raw = outcome.result;
    }
    return { kind: "changed", raw, created: draft === undefined, value: adapter.decode(raw) };
  } catch (error) {
    return { kind: "failed", error };
  }
}

/**
 * Throws if a mutator changed its draft and returned another value: `(draft) => draft.items.push(1)` would replace the document by a
 * number. Costs one encoding, and only for mutators that return a value.
 */
function rejectChangedDraft<T, Raw>(adapter: Pick<ServiceAdapter<T, Raw>, "decode" | "encode" | "equals">, draft: T, start: Raw): void {
  if (typeof draft !== "object" || draft === null) return;
  let raw: Raw | undefined;
  try {
    raw = adapter.encode(draft, start);
  } catch {
    // It was valid before the mutator ran. Unless what is stored cannot be encoded either, because it has too many levels: throws that error.
    adapter.encode(adapter.decode(start), start);
  }
  // The codec of a caller may encode a value in another way than it was stored: then its own encoding of the start counts.
  if (raw !== undefined && (adapter.equals(start, raw) || adapter.equals(adapter.encode(adapter.decode(start), start), raw))) return;
  throw new TypeError(
    "The mutator changed its draft and returned another value, so that one of them would be lost: change the draft and return nothing, or leave it as it is and return the new value.",
  );
}
