import { onAbort } from "../core/abort.js";
import { delay, fullJitter } from "../core/delay.js";
import { explain, isLeaseConflict } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LeaseGuard } from "../lease/lease-guard.js";
import type { RequestContext, Snapshot, TargetAdapter } from "../target/target.js";
import { Round } from "./batch.js";
import type { UpdateCall } from "./batch.js";
import { commit } from "./commit.js";
import type { Verdict } from "./commit.js";
import type { Hold, TakeHold } from "./exclusive-access.js";
import type { HeldLike } from "./leased-options.js";
import type { GroupSettings } from "./update-queue.js";

/** One update under a lease: acquire, read, apply, write, release; from the start again if somebody was first. */
export class LeasedRun<T, Raw> {
  readonly #adapter: TargetAdapter<T, Raw>;
  readonly #call: UpdateCall<T, Raw>;
  readonly #settings: GroupSettings;
  readonly #takeHold: TakeHold;
  readonly #stop: AbortController;
  /** Ends the request that is under way once the call has its outcome: cancelled, out of time, or without its lease. */
  readonly #io = new AbortController();
  /** Not while the result is handed out: there is nothing to abort then, and an abort makes an exception with a stack. */
  #underWay = true;

  constructor(
    adapter: TargetAdapter<T, Raw>,
    call: UpdateCall<T, Raw>,
    settings: GroupSettings,
    takeHold: TakeHold,
    stop: AbortController,
  ) {
    this.#adapter = adapter;
    this.#call = call;
    this.#settings = settings;
    this.#takeHold = takeHold;
    this.#stop = stop;
  }

  /** Settles the call; never rejects. */
  async run(): Promise<void> {
    const call = this.#call;
    call.onSettled = () => {
      if (this.#underWay) this.#io.abort();
    };
    for (let losses = 0; !isSettled(call); losses++) {
      try {
        if (losses > 0) await delay(fullJitter(losses, call.settings.retryDelayInMs, call.settings.maxRetryDelayInMs), this.#io.signal);
        call.trace.begin();
        await this.#once();
        call.trace.end("race");
      } catch (error) {
        call.reject(explain(error, this.#adapter.url));
      }
    }
  }

  async #once(): Promise<void> {
    const { trace, settings } = this.#call;
    const hold = await this.#takeHold({ abortSignal: this.#io.signal, tracingOptions: trace.tracingOptions });
    // It is released when the attempt is over.
    if (!hold.borrowed) hold.lease?.tracedBy(settings.options.tracingOptions);
    if (!hold.held) return this.#apply(undefined, this.#context(hold), hold);
    const { signal } = hold.held;
    const off = onAbort(signal, () => this.#lost(signal.reason));
    try {
      const outcome = await this.#under(hold);
      off();
      if (outcome !== "done") await this.#again(hold);
    } finally {
      off();
      if (!hold.borrowed) await letGo(hold.held, this.#adapter.url);
    }
  }

  async #under(hold: Hold): Promise<"done" | "not ours" | "gone"> {
    const adapter = this.#adapter;
    const context = this.#context(hold);
    let snapshot: Snapshot<Raw> | undefined;
    try {
      if (hold.lease?.tookOver) await adapter.sweep?.(context);
      snapshot = await adapter.read(context);
    } catch (error) {
      if (isLeaseConflict(error)) return "not ours";
      throw error;
    }
    if (!snapshot && hold.lease) return "gone";
    await this.#apply(snapshot, context, hold);
    return "done";
  }

  /**
   * The lease was broken, or its target deleted, before anything was done under it: nothing is lost yet. Asking for it
   * makes sure that this process hands it on to nobody else.
   */
  async #again({ lease, held, borrowed }: Hold): Promise<void> {
    await lease?.renew().catch(() => undefined);
    if (borrowed || ++this.#call.lostRaces > this.#call.settings.maxAttempts) held?.assertHeld();
  }

  async #apply(snapshot: Snapshot<Raw> | undefined, context: RequestContext, hold: Hold): Promise<void> {
    const call = this.#call;
    const adapter = this.#adapter;
    if (snapshot && adapter.check) await adapter.check(adapter.decode(snapshot.raw), "read");
    const round = new Round(adapter, [call]);
    await round.apply({ snapshot, asOf: call.arrived, checked: true }, () => false);
    if (isSettled(call)) return;
    // Right even if the mutator blocked the event loop until a moment ago, and the timers have not run.
    hold.held?.assertHeld();
    if (!round.dirty || (!snapshot && round.draft === undefined)) {
      this.#settle(round, snapshot);
      return;
    }
    call.inFlight = true;
    const plan = { base: snapshot, draft: round.draft, journaling: this.#settings.journaling };
    const verdict = await commit(adapter, plan, context);
    call.inFlight = false;
    if (verdict.kind === "unknown") await this.#disarm(hold);
    if (verdict.kind === "landed") this.#settle(round, verdict.overtaken ? undefined : (verdict.found ?? undefined));
    else await this.#notLanded(verdict, hold);
  }

  #settle(round: Round<T, Raw>, now: Snapshot<Raw> | undefined): void {
    this.#underWay = false;
    round.settleAll(now);
  }

  /** Rejects the call, or leaves it for another try. */
  async #notLanded(verdict: Exclude<Verdict<Raw>, { kind: "landed" }>, hold: Hold): Promise<void> {
    const call = this.#call;
    if (verdict.kind === "unknown") {
      if (call.settings.onUnknown === "throw") call.rejectUnknown(verdict.error);
      call.mayHaveLanded = true;
    } else {
      if (verdict.kind === "refused" && !isLeaseConflict(verdict.error)) throw verdict.error;
      await this.#confirm(hold);
      call.lostRaces++;
    }
    if (call.attempts >= call.settings.maxAttempts) call.rejectConflict(verdict.error);
  }

  /**
   * Somebody else was first, in spite of the lease: it is lost then. Unless the target did not exist, or it was about
   * the file beside it: then another try may help.
   */
  async #confirm({ lease, held }: Hold): Promise<void> {
    await lease?.renew().catch(() => undefined);
    held?.assertHeld();
  }

  /**
   * Given up with a write on its way, which could land at any time while the lease has the same id: also when others
   * have read, changed and written under it. The caller's own lease gets another id; one of ours ends.
   */
  async #disarm({ lease, borrowed, handedOn }: Hold): Promise<void> {
    if (!lease || !handedOn || !this.#adapter.guarded) return;
    if (!borrowed) lease.retire();
    else await changeId(lease).catch((error: unknown) => logger.warning(`the lease on ${lease.url} could not be changed: ${errorLabel(error)}`));
  }

  #lost(reason: unknown): void {
    const call = this.#call;
    // A write that has not been answered may land or not. Nobody else could have told before.
    if (call.inFlight) call.rejectUnknown(reason);
    this.#stop.abort(reason);
  }

  #context({ lease, handedOn }: Hold): RequestContext {
    const { trace } = this.#call;
    return {
      abortSignal: this.#io.signal,
      tracingOptions: trace.tracingOptions,
      onRequest: () => trace.countRequest(),
      journalName: this.#settings.journalName,
      // Asked for each request anew: it changes when an answer is lost.
      get leaseId() {
        return lease?.leaseId;
      },
      // Whoever has the lease next under the same id must be safe from what was sent under it before.
      fence: lease && handedOn && this.#adapter.guarded ? () => changeId(lease) : undefined,
    };
  }
}

/** A lease of the caller's may have a crash guard, and then an id that cannot change; what was sent is its own at least. */
async function changeId(lease: LeaseGuard): Promise<void> {
  await lease.change().catch((error: unknown) => {
    if (!(error instanceof TypeError)) throw error;
  });
}

/** What was written is written, and what was not has its error: a release that fails changes nothing about that. */
async function letGo(held: HeldLike, url: string): Promise<void> {
  await held.release().catch((error: unknown) => {
    logger.warning(`after an update of ${url} the lease could not be released: ${errorLabel(error)}`);
  });
}

/** Asked anew after an await: the compiler takes what it saw before for granted. */
function isSettled(call: { readonly settled: boolean }): boolean {
  return call.settled;
}
