import type { AbortSignalLike } from "../clients/call.js";
import { isThenable, waitOrDetach, WriteCall } from "../core/pending-call.js";
import type { WriteCallSettings } from "../core/pending-call.js";
import { TargetNotFoundError } from "../errors.js";
import type { Snapshot, TargetAdapter } from "../target/target.js";

/** What an update did. */
export interface UpdateResult<T> {
  /** The value as this call left it (for `"deleted"`: as it was). */
  value: T;
  /**
   * The ETag of exactly this `value`. Where another update was committed on top in the same write, or before this
   * one's answer was recovered, it is one that no longer matches.
   */
  etag: string;
  outcome: "created" | "updated" | "unchanged" | "deleted";
  /** How often the mutator ran. */
  attempts: number;
}

/** The options of one update after defaults and checks. */
export interface CallSettings<T, Raw> extends WriteCallSettings {
  readonly initial: T | (() => T) | undefined;
  readonly firstRead: Snapshot<Raw> | undefined;
}

/** One caller of an update, and its mutator. */
export class UpdateCall<T, Raw> extends WriteCall<UpdateResult<T>, CallSettings<T, Raw>> {
  readonly mutator: Mutator<T>;

  constructor(mutator: Mutator<T>, settings: CallSettings<T, Raw>) {
    super(settings);
    this.mutator = mutator;
  }
}

/** Returned by a mutator: delete the target, provided that nobody changed it. */
export const remove: unique symbol = Symbol.for("azure-storage-concurrency.remove") as typeof remove;

/** What a mutator is told besides the value. */
export interface MutatorContext {
  /** 1 on the first run; a mutator runs again when a race was lost. */
  readonly attempt: number;
  /** The caller's own signal. */
  readonly abortSignal: AbortSignalLike | undefined;
}

/**
 * Changes a private copy of the value in place, or returns a new one, or {@link remove}. It may be async. It may run
 * several times, but its effect lands once; it should do nothing else than compute. Throwing cancels the update.
 */
export type Mutator<T> = (
  draft: T,
  context: MutatorContext,
) => T | typeof remove | undefined | void | Promise<T | typeof remove | undefined | void>; // eslint-disable-line @typescript-eslint/no-invalid-void-type -- a mutator that changes in place returns nothing

/** A state that is known to be stored (or nothing), and since when: the logical time at which its request was sent. */
export interface Base<Raw> {
  readonly snapshot: Snapshot<Raw> | undefined;
  readonly readAt: number;
  /** Whether its value is known to fit the schema. */
  readonly checked: boolean;
}

/** One pass over the waiting calls: their mutators applied in order to one draft, and the result of each. */
export class Batch<T, Raw> {
  readonly #adapter: TargetAdapter<T, Raw>;
  readonly #calls: readonly UpdateCall<T, Raw>[];
  readonly #steps: Step<Raw>[] = [];
  /** What each mutator was given. */
  readonly #before: (Raw | undefined)[] = [];
  /** The state after all mutators; undefined: the target is to be gone. */
  draft: Raw | undefined;
  #lastWriter = -1;

  constructor(adapter: TargetAdapter<T, Raw>, calls: readonly UpdateCall<T, Raw>[]) {
    this.#adapter = adapter;
    this.#calls = calls;
  }

  /** Whether any mutator changed anything. */
  get hasChanges(): boolean {
    return this.#lastWriter >= 0;
  }

  /** Runs the mutators one after the other; each sees what those before it did. One that fails leaves no trace. */
  async apply(base: Base<Raw>, moreAreWaiting: () => boolean): Promise<void> {
    this.draft = base.snapshot?.raw;
    for (const [index, call] of this.#calls.entries()) {
      const hasOtherWaiters = (): boolean =>
        this.#calls.some((other, at) => at !== index && !other.isSettled()) || moreAreWaiting();
      const step: Step<Raw> = call.isSettled() ? { kind: "gone" } : await this.#applyOne(call, base, hasOtherWaiters);
      this.#before.push(this.draft);
      this.#steps.push(step);
      if (step.kind !== "changed" && step.kind !== "removed") continue;
      this.draft = step.kind === "changed" ? step.raw : undefined;
      this.#lastWriter = index;
    }
  }

  async #applyOne(call: UpdateCall<T, Raw>, base: Base<Raw>, hasOtherWaiters: () => boolean): Promise<Step<Raw>> {
    call.attempts++;
    call.inFlight = false;
    call.lastETag = base.snapshot?.etag;
    const step = await applyMutator(this.#adapter, call, this.draft, hasOtherWaiters);
    if (call.isSettled()) return { kind: "gone" };
    // It saw only what is stored, and that was read after it was enqueued: its error is final, whatever the outcome of the
    // others. Otherwise it waits with them: the draft that it rejected may never be stored.
    if (step.kind === "failed" && !this.hasChanges && call.enqueuedAt <= base.readAt) call.reject(step.error);
    return step;
  }

  /** Gives every call its result. `now`: what is stored after the last step; undefined: something else is by now. */
  settleAll(now: Snapshot<Raw> | undefined): void {
    for (const index of this.#calls.keys()) this.#settle(index, now);
  }

  /** Gives those calls their results that came before the state was read; returns the others. */
  settleUpTo(base: Base<Raw>): UpdateCall<T, Raw>[] {
    for (const [index, call] of this.#calls.entries()) {
      if (call.enqueuedAt <= base.readAt) this.#settle(index, base.snapshot);
    }
    return this.unsettled();
  }

  /** The calls that still need a result, and are not detached. */
  unsettled(): UpdateCall<T, Raw>[] {
    return this.#calls.filter((call, index) => !call.isSettled() && this.#steps[index]?.kind !== "detached");
  }

  /** The calls that have a part in what is to be written. */
  writers(): UpdateCall<T, Raw>[] {
    return this.#calls.filter((_, index) => this.#isChange(index));
  }

  /** The calls whose mutators are still running, and when each has ended. */
  detached(): [UpdateCall<T, Raw>, Promise<unknown>][] {
    return this.#calls.flatMap((call, index) => {
      const step = this.#steps[index];
      return step?.kind === "detached" ? [[call, step.done] as [UpdateCall<T, Raw>, Promise<unknown>]] : [];
    });
  }

  #isChange(index: number): boolean {
    const kind = this.#steps[index]?.kind;
    return kind === "changed" || kind === "removed";
  }

  #settle(index: number, now: Snapshot<Raw> | undefined): void {
    const call = this.#calls[index];
    const step = this.#steps[index];
    if (!call || !step) return;
    const adapter = this.#adapter;
    const before = this.#before[index];
    const superseded = index < this.#lastWriter;
    // A value and an ETag that do not belong together would let the caller overwrite what came after the value.
    const etag = superseded || !now ? adapter.staleETag : now.etag;
    const resolve = (raw: Raw, outcome: UpdateResult<T>["outcome"], ofETag = etag): void =>
      call.resolve({ value: adapter.decode(raw), etag: ofETag, outcome, attempts: call.attempts }, outcome);
    switch (step.kind) {
      case "changed":
        resolve(step.raw, step.created ? "created" : "updated");
        break;
      case "removed":
        resolve(before as Raw, "deleted", call.lastETag ?? adapter.staleETag);
        break;
      case "unchanged":
        resolve(step.raw, "unchanged");
        break;
      case "missing":
        call.reject(
          new TargetNotFoundError(`${adapter.url} does not exist: ${adapter.notFoundAdvice ?? "pass initial to create it"}`, { url: adapter.url }),
        );
        break;
      case "failed":
        call.reject(step.error);
        break;
      case "detached":
      case "gone":
        break;
    }
  }
}

/** What one mutator made of a draft. */
type Step<Raw> =
  | { readonly kind: "changed"; readonly raw: Raw; readonly created: boolean }
  | { readonly kind: "removed" }
  /** `raw` is what it left as it was: the initial value, if there is nothing yet and it is to stay so. */
  | { readonly kind: "unchanged"; readonly raw: Raw }
  /** There is nothing to change and no `initial`. */
  | { readonly kind: "missing" }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Too slow for the callers behind it; `done` resolves when the mutator has ended, whatever its result. */
  | { readonly kind: "detached"; readonly done: Promise<unknown> }
  /** Its caller has gone. */
  | { readonly kind: "gone" };

/** How long other callers wait for an async mutator, the first time. */
const detachAfterInMs = 50;

/** Runs one caller's mutator on a private copy of the draft (undefined: the target does not exist). */
async function applyMutator<T, Raw>(
  adapter: Pick<TargetAdapter<T, Raw>, "decode" | "encode" | "equals" | "check">,
  call: UpdateCall<T, Raw>,
  draft: Raw | undefined,
  hasOtherWaiters: () => boolean,
): Promise<Step<Raw>> {
  const { initial } = call.settings;
  try {
    let start = draft;
    if (start === undefined) {
      if (initial === undefined) return { kind: "missing" };
      start = adapter.encode(typeof initial === "function" ? (initial as () => T)() : initial, undefined);
    }
    const value = adapter.decode(start);
    const running = call.mutator(value, { attempt: call.attempts, abortSignal: call.settings.options.abortSignal });
    let result: T | typeof remove | undefined;
    if (isThenable(running)) {
      const outcome = await waitOrDetach(running, call, hasOtherWaiters, detachAfterInMs);
      if (outcome.kind !== "done") return outcome;
      result = outcome.result as typeof result;
    } else result = running as typeof result;
    if (result === remove) return draft === undefined ? { kind: "unchanged", raw: start } : { kind: "removed" };
    const raw = adapter.encode(result === undefined ? value : result, start);
    if (draft !== undefined && adapter.equals(draft, raw)) return { kind: "unchanged", raw: draft };
    if (adapter.check) {
      // It may be slow or hang, as a mutator may.
      const outcome = await waitOrDetach(adapter.check(adapter.decode(raw), "write"), call, hasOtherWaiters, detachAfterInMs);
      if (outcome.kind !== "done") return outcome;
    }
    return { kind: "changed", raw, created: draft === undefined };
  } catch (error) {
    return { kind: "failed", error };
  }
}
