import { bounded } from "../core/bounded.js";
import { delay, fullJitter } from "../core/delay.js";
import { explain, isDenied, isLeaseConflict, isMissingParent } from "../core/storage-errors.js";
import { beginTogether, endUnsettled, logger } from "../core/telemetry.js";
import type { RequestContext, TargetAdapter } from "../target/target.js";
import { Round } from "./batch.js";
import type { Base, UpdateCall } from "./batch.js";
import { commit } from "./commit.js";
import type { Verdict } from "./commit.js";

/** What all calls of one group have in common. */
export interface GroupSettings {
  readonly journaling: boolean;
  readonly journalName: string;
  readonly leaseId: string | undefined;
  readonly coalesce: boolean;
}

/** More than this in one write would keep the event loop busy for too long. */
const maxBatch = 1_000;

const groups = new WeakMap<object, Map<string, Group<unknown, unknown>>>();

/** Orders joins and requests: a state whose request was sent before a call joined may be too old for that call. */
let tick = 0;

/**
 * Hands a call to the group of its target. All calls of one target, in this process and under the same rights, are
 * carried out by one loop that reads once, applies their mutators in order and writes once.
 */
export function joinGroup<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  call: UpdateCall<T, Raw>,
  settings: GroupSettings,
  place: "first" | "last" = "last",
): void {
  if (call.settled) return;
  if (!settings.coalesce) {
    new Group(adapter, settings, undefined).add(call, place);
    return;
  }
  let ofOwner = groups.get(adapter.owner) as Map<string, Group<T, Raw>> | undefined;
  if (!ofOwner) groups.set(adapter.owner, (ofOwner = new Map()) as Map<string, never>);
  const key = JSON.stringify([adapter.key, settings.journaling, settings.journalName, settings.leaseId]);
  let group = ofOwner.get(key);
  if (!group) {
    const own = ofOwner;
    ofOwner.set(key, (group = new Group(adapter, settings, () => own.delete(key))));
  }
  group.add(call, place);
}

class Group<T, Raw> {
  readonly #adapter: TargetAdapter<T, Raw>;
  readonly #settings: GroupSettings;
  readonly #onIdle: (() => void) | undefined;
  #queue: UpdateCall<T, Raw>[] = [];
  /** The calls that wait for the round under way; empty while a request is for everybody. */
  #inFlight: readonly UpdateCall<T, Raw>[] = [];
  #running = false;
  /** Ends what is under way when nobody waits for it any more. */
  #io = new AbortController();
  /** Not while results are handed out: there is nothing to abort then, and an abort makes an exception with a stack each time. */
  #underWay = false;

  constructor(adapter: TargetAdapter<T, Raw>, settings: GroupSettings, onIdle: (() => void) | undefined) {
    this.#adapter = adapter;
    this.#settings = settings;
    this.#onIdle = onIdle;
  }

  add(call: UpdateCall<T, Raw>, place: "first" | "last"): void {
    call.arrived = ++tick;
    call.onSettled = () => this.#stopIfAbandoned();
    if (place === "first") this.#queue.unshift(call);
    else this.#queue.push(call);
    if (!this.#running) {
      this.#running = true;
      void this.#drain();
    }
  }

  /** Never rejects. */
  async #drain(): Promise<void> {
    try {
      await this.#loop();
    } catch (error) {
      // A defect, of an adapter or here. Whoever is left must not wait for it, and the next one gets a new loop.
      logger.error(`updating ${this.#adapter.url} failed`, error);
      this.#underWay = false;
      for (const call of [...this.#inFlight, ...this.#queue]) {
        if (call.inFlight) call.rejectUnknown(error);
        else call.reject(error);
      }
      this.#queue = [];
    }
    this.#running = false;
    this.#onIdle?.();
  }

  /** Read unless the state is known, apply, write, settle; until nobody is left. */
  async #loop(): Promise<void> {
    let base: Base<Raw> | undefined;
    let losses = 0;
    while (this.#hasWork()) {
      this.#io = new AbortController();
      this.#underWay = true;
      beginTogether(this.#queue.slice(0, 1));
      try {
        base ??= this.#givenRead() ?? (await this.#read());
        if (!base.checked) base = await this.#check(base);
      } catch (error) {
        base = undefined;
        // An abort was meant for callers that have gone; one that came in the same instant has to be read for anew.
        if (!this.#io.signal.aborted) this.#rejectAll(error);
        continue;
      }
      const calls = this.#take();
      this.#inFlight = calls;
      beginTogether(calls);
      const round = new Round(this.#adapter, calls);
      await round.apply(base, () => this.#queue.some((call) => !call.settled));
      this.#letRunAside(round);
      // A target that was made and removed again within the round needs no request either.
      if (!round.dirty || (!base.snapshot && round.draft === undefined)) {
        // Those that came after the state was read must not be answered from it: others may have written since.
        this.#underWay = false;
        const late = round.settleUpTo(base);
        endUnsettled(late, "outdated");
        this.#queue.unshift(...late);
        if (late.length > 0) base = undefined;
        continue;
      }
      // One of them has gone since its mutator ran: its change must not be written, so the others run without it.
      if (round.changers().some((call) => call.settled)) {
        endUnsettled(calls, "interrupted");
        this.#queue.unshift(...round.unsettled());
        continue;
      }
      const asOf = ++tick;
      const verdict = await this.#commit(round, base);
      this.#underWay = false;
      base = this.#settle(round, verdict, base, asOf);
      endUnsettled(calls, verdict.kind);
      if (verdict.kind !== "race") losses = 0;
      else if (!base) await this.#backOff(losses++);
    }
  }

  #hasWork(): boolean {
    this.#inFlight = [];
    this.#queue = this.#queue.filter((call) => !call.settled);
    return this.#queue.length > 0;
  }

  /** A lone caller may bring what it has read already. */
  #givenRead(): Base<Raw> | undefined {
    const [call] = this.#queue;
    if (!call || this.#queue.length > 1 || call.attempts > 0 || !call.settings.firstRead) return undefined;
    // Read before the call came: good enough to try a write with, not to answer from.
    return { snapshot: call.settings.firstRead, asOf: call.arrived - 1, checked: true };
  }

  async #read(): Promise<Base<Raw>> {
    const asOf = ++tick;
    const snapshot = await this.#adapter.read(this.#context(this.#queue));
    return { snapshot, asOf, checked: false };
  }

  async #check(base: Base<Raw>): Promise<Base<Raw>> {
    const { check } = this.#adapter;
    const { snapshot } = base;
    if (check && snapshot) {
      // One that hangs is given up with those who wait for it now: whoever comes later gets a check of its own.
      this.#inFlight = [...this.#queue];
      await bounded(Number.POSITIVE_INFINITY, this.#io.signal, () => check(this.#adapter.decode(snapshot.raw), "read"));
      this.#inFlight = [];
    }
    return { ...base, checked: true };
  }

  #take(): UpdateCall<T, Raw>[] {
    const alone = this.#queue.findIndex((call) => call.solo);
    const count = alone < 0 ? maxBatch : Math.max(alone, 1);
    return this.#queue.splice(0, Math.min(count, maxBatch));
  }

  /** They come back, to the front, when their mutators have ended: two runs of one mutator never overlap. */
  #letRunAside(round: Round<T, Raw>): void {
    for (const [call, done] of round.asides()) {
      const started = performance.now();
      void done.then(() => {
        call.tookInMs += performance.now() - started + 50;
        if (call.attempts >= call.settings.maxAttempts) call.rejectConflict(undefined);
        joinGroup(this.#adapter, call, this.#settings, "first");
      });
    }
  }

  async #commit(round: Round<T, Raw>, { snapshot }: Base<Raw>): Promise<Verdict<Raw>> {
    this.#inFlight = round.unsettled();
    if (this.#inFlight.length === 0) return { kind: "refused", error: undefined }; // all have gone meanwhile
    // Not before: until here nothing was sent, and a deadline can say so.
    for (const call of round.changers()) call.inFlight = true;
    const plan = { base: snapshot, draft: round.draft, journaling: this.#settings.journaling };
    return commit(this.#adapter, plan, this.#context(this.#inFlight));
  }

  /** Gives each call of a round its outcome, or queues it again. Returns what is known to be stored now. */
  #settle(round: Round<T, Raw>, verdict: Verdict<Raw>, base: Base<Raw>, asOf: number): Base<Raw> | undefined {
    const changers = round.changers();
    for (const call of changers) call.inFlight = false;
    switch (verdict.kind) {
      case "landed":
        round.settleAll(verdict.overtaken ? undefined : (verdict.found ?? undefined));
        break;
      case "race":
        logger.verbose(`lost a race for ${this.#adapter.url}`);
        for (const call of round.unsettled()) call.lostRaces++;
        break;
      case "unknown":
        logger.warning(`the fate of a write to ${this.#adapter.url} is unknown`);
        for (const call of changers) {
          const { onUnknown, maxAttempts } = call.settings;
          if (onUnknown === "throw" || call.attempts >= maxAttempts) call.rejectUnknown(verdict.error);
          call.mayHaveLanded = true;
        }
        break;
      case "refused":
        this.#refuse(changers, verdict.error, round.draft === undefined);
        this.#queue.unshift(...round.unsettled());
        return base;
    }
    const again = round.unsettled();
    for (const call of again) if (call.attempts >= call.settings.maxAttempts) call.rejectConflict("error" in verdict && verdict.error);
    this.#queue.unshift(...again);
    return foundBy(verdict, asOf);
  }

  /** The service refused the write for good. One change may be to blame for what was combined: try them one by one. */
  #refuse(calls: readonly UpdateCall<T, Raw>[], error: unknown, deleting: boolean): void {
    // Who may write need not be allowed to delete.
    const sharedFate = (isDenied(error) && !deleting) || isLeaseConflict(error) || isMissingParent(error) || calls.length === 1;
    for (const call of calls) {
      if (sharedFate) call.reject(explain(error, this.#adapter.url));
      else call.solo = true;
    }
  }

  async #backOff(losses: number): Promise<void> {
    const call = this.#queue.find(({ settled }) => !settled);
    if (!call) return;
    const { retryDelayInMs, maxRetryDelayInMs } = call.settings;
    this.#inFlight = [];
    this.#underWay = true;
    await delay(fullJitter(losses, retryDelayInMs, maxRetryDelayInMs), this.#io.signal).catch(() => undefined);
  }

  #rejectAll(error: unknown): void {
    const explained = explain(error, this.#adapter.url);
    for (const call of this.#queue) call.reject(explained);
  }

  #context(calls: readonly UpdateCall<T, Raw>[]): RequestContext {
    return {
      abortSignal: this.#io.signal,
      tracingOptions: calls.find((call) => !call.settled)?.trace.tracingOptions,
      onRequest: () => {
        for (const call of calls) call.trace.countRequest();
      },
      leaseId: this.#settings.leaseId,
      journalName: this.#settings.journalName,
    };
  }

  #stopIfAbandoned(): void {
    if (!this.#underWay) return;
    const waiting = this.#inFlight.length > 0 ? this.#inFlight : this.#queue;
    if (waiting.every((call) => call.settled)) this.#io.abort();
  }
}

function foundBy<Raw>(verdict: Verdict<Raw>, asOf: number): Base<Raw> | undefined {
  if (verdict.kind === "refused" || verdict.found === undefined) return undefined;
  // What we wrote was checked before; what was read back instead may be anything.
  const checked = verdict.kind === "landed" && !verdict.overtaken;
  return { snapshot: verdict.found ?? undefined, asOf, checked };
}
