import { TargetNotFoundError } from "../errors.js";
import { applyMutator } from "./apply-mutator.js";
import type { Step } from "./apply-mutator.js";
import type { Snapshot, TargetAdapter } from "./target.js";
import type { UpdateCall, UpdateResult } from "./update-call.js";

/** A state that is known to be stored (or nothing), and since when: the tick at which its request was sent. */
export interface Base<Raw> {
  readonly snapshot: Snapshot<Raw> | undefined;
  readonly asOf: number;
  /** Whether its value is known to fit the schema. */
  readonly checked: boolean;
}

/** One pass over the waiting calls: their mutators applied in order to one draft, and what each of them is owed. */
export class Round<T, Raw> {
  readonly #adapter: TargetAdapter<T, Raw>;
  readonly #calls: readonly UpdateCall<T, Raw>[];
  readonly #steps: Step<Raw>[] = [];
  /** What each mutator was given. */
  readonly #before: (Raw | undefined)[] = [];
  /** The state after all mutators; undefined: the target is to be gone. */
  draft: Raw | undefined;
  /** Whether any mutator changed anything. */
  dirty = false;

  constructor(adapter: TargetAdapter<T, Raw>, calls: readonly UpdateCall<T, Raw>[]) {
    this.#adapter = adapter;
    this.#calls = calls;
  }

  /** Runs the mutators one after the other; each sees what those before it did. One that fails leaves no trace. */
  async apply(base: Base<Raw>, moreAreWaiting: () => boolean): Promise<void> {
    this.draft = base.snapshot?.raw;
    for (const [index, call] of this.#calls.entries()) {
      const othersWait = (): boolean =>
        this.#calls.some((other, at) => at !== index && !other.settled) || moreAreWaiting();
      const step: Step<Raw> = call.settled ? { kind: "gone" } : await this.#applyOne(call, base, othersWait);
      this.#before.push(this.draft);
      this.#steps.push(step);
      if (step.kind !== "changed" && step.kind !== "removed") continue;
      this.draft = step.kind === "changed" ? step.raw : undefined;
      this.dirty = true;
    }
  }

  async #applyOne(call: UpdateCall<T, Raw>, base: Base<Raw>, othersWait: () => boolean): Promise<Step<Raw>> {
    call.attempts++;
    call.inFlight = false;
    call.lastETag = base.snapshot?.etag;
    const step = await applyMutator(this.#adapter, call, this.draft, othersWait);
    if (hasSettled(call)) return { kind: "gone" };
    // It saw nothing but what is stored, and that was read after it came: its error is final whatever becomes of the
    // others. Otherwise it waits with them: what it objected to may never be stored.
    if (step.kind === "failed" && !this.dirty && call.arrived <= base.asOf) call.reject(step.error);
    return step;
  }

  /** Gives every call its result. `now`: what is stored after the last step; undefined: something else is by now. */
  settleAll(now: Snapshot<Raw> | undefined): void {
    for (const index of this.#calls.keys()) this.#settle(index, now);
  }

  /** Gives those calls their results that came before the state was read; returns the others. */
  settleUpTo(base: Base<Raw>): UpdateCall<T, Raw>[] {
    for (const [index, call] of this.#calls.entries()) {
      if (call.arrived <= base.asOf) this.#settle(index, base.snapshot);
    }
    return this.unsettled();
  }

  /** The calls that want a result still, and do not run aside. */
  unsettled(): UpdateCall<T, Raw>[] {
    return this.#calls.filter((call, index) => !call.settled && this.#steps[index]?.kind !== "aside");
  }

  /** The calls that have a part in what is to be written. */
  changers(): UpdateCall<T, Raw>[] {
    return this.#calls.filter((_, index) => this.#isChange(index));
  }

  /** The calls whose mutators are still running, and when each has ended. */
  asides(): [UpdateCall<T, Raw>, Promise<unknown>][] {
    return this.#calls.flatMap((call, index) => {
      const step = this.#steps[index];
      return step?.kind === "aside" ? [[call, step.done] as [UpdateCall<T, Raw>, Promise<unknown>]] : [];
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
    const overtaken = this.#steps.some((_, later) => later > index && this.#isChange(later));
    // A value and an ETag that do not belong together would let the caller overwrite what came after the value.
    const etag = overtaken || !now ? adapter.staleETag : now.etag;
    const resolve = (raw: Raw, outcome: UpdateResult<T>["outcome"], ofETag = etag): void =>
      call.resolve({ value: adapter.decode(raw), etag: ofETag, outcome, attempts: call.attempts });
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
          new TargetNotFoundError(`${adapter.url} does not exist: ${adapter.whenMissing ?? "pass initial to create it"}`, { url: adapter.url }),
        );
        break;
      case "failed":
        call.reject(step.error);
        break;
      case "aside":
      case "gone":
        break;
    }
  }
}

/** Asked anew after an await: the compiler takes what it saw before for granted. */
function hasSettled(call: { readonly settled: boolean }): boolean {
  return call.settled;
}
