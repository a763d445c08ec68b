import { delay, startStopwatch, startTimer } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { recorder } from "../core/measure.js";
import { Recent } from "../core/recent.js";
import { read } from "../core/request.js";
import { jitter, pollDelay } from "../core/retry.js";
import { isTransient, isUnauthorized } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { isConcurrencyError } from "../errors.js";
import { Waiter } from "../lease/acquire.js";
import type { WaitRequest } from "../lease/acquire.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import { LockHandleImpl } from "../lease/lease-handle.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import type { BlobLocks, SlotGrant } from "./blob-locks.js";
import type { TryAcquireLockOptions } from "./lock-options.js";
import { SlotChoice, SlotPoll } from "./slot-choice.js";
import { SlotLine } from "./slot-line.js";
import { SlotRecord } from "./slot-record.js";

/** So many slots are tried at the same time, if so many callers wait. */
const maxParallel = 16;
/** A try without a response for this long does not keep its caller from other slots. */
const slowAfterInMs = 1_000;
/** If so many tries have no response, further slots are not tried before a listing has one. */
const maxSlow = 2;
/** A listing without a response for this long is given up, and repeated with the next poll. */
const listTimeoutInMs = 5_000;
/** While other processes wait, a slot is handed over within this one for so long, up to twice as long. */
const minTurnInMs = 1_000;
/** A process that comes back this soon after a release may be in a loop: it yields as one that hands its slots over does. */
const recentInMs = 1_000;
/** Polls begin at the pace of a caller that has waited for this long: who has just come must not be at an advantage. */
const minWaitedInMs = 4_000;
/** A process whose callers have waited for this long without a slot stands in line. */
const patienceInMs = 1_000;
/** The first in line polls at the pace of a caller that has waited for this long: more often than who has just come. */
const minFirstInMs = 1_000;
/**
 * The others in line wait for their turn: who is lucky at their expense leaves a place behind, which costs all of them time. They poll in
 * case that the first one has died; and more often if there are so many slots that the line cannot move up fast enough.
 */
const behindPollInMs = 10_000;
const slotsOfLine = 4;
const behindInLine = 3;
/** A lease that was confirmed longer ago than this is renewed before it is handed over. */
const confirmAfterInMs = 1_000;

/** One caller that waits for a slot. */
export class SlotWaiter extends Waiter<LockHandleImpl> {
  readonly locks: BlobLocks;
  readonly options: TryAcquireLockOptions;
  /** Callers with the same key can hand a slot over to each other. */
  readonly key: string;

  constructor(locks: BlobLocks, options: TryAcquireLockOptions, request: WaitRequest) {
    // It checks the options. After the call exists, an error would leave its promise to no caller: if its signal has aborted, an unhandled rejection.
    const key = locks.holderKey(options);
    super(request);
    this.locks = locks;
    this.options = options;
    this.key = key;
  }
}

/** The slots that are taken, with the epochs of their holders as far as they are recorded. */
export type ListSlots = (abortSignal: AbortSignal) => Promise<ReadonlyMap<number, number>>;

/** A slot that this process holds. */
interface HeldSlot {
  readonly slot: number;
  readonly grant: SlotGrant;
  readonly key: string;
  readonly heldForInMs: Clock;
  readonly turnInMs: number;
  readonly offLost: () => void;
}

/**
 * The callers of one semaphore in this process: FIFO, over all of its slots. A slot that is released here goes to the next caller
 * without a request. If several callers wait, several slots are tried at the same time. A slot that fails or hangs is left out.
 */
export class SlotQueue {
  readonly #name: string;
  readonly #slots: number;
  readonly #list: ListSlots;
  readonly #record: SlotRecord;
  readonly #waiters = new Set<SlotWaiter>();
  readonly #held = new Map<number, HeldSlot>();
  /** With the slots that are tried at the moment: whether the response is overdue. */
  readonly #trying = new Map<number, { slow: boolean }>();
  readonly #choice: SlotChoice;
  readonly #failures = new FailureStreak();
  readonly #line: SlotLine;
  #poll: SlotPoll | undefined;
  /** Of a try whose poll had ended before: for the next one, which cannot try that slot. */
  #lateFailure: unknown;
  #handOvers = 0;
  /** The record is checked, or the slots are listed. */
  #isLooking = false;
  #mayList = true;
  #pausing: AbortController | undefined;
  #sinceProgress = startStopwatch();
  /** Who had the slots in the last listing that this process read, and since when. */
  #holders = "";
  #sinceChange = startStopwatch();
  #sinceRelease: Clock | undefined;
  /** How long this process has used slots without a pause. */
  #usedForInMs = startStopwatch();
  /** Ends what is in flight when the last caller leaves. */
  #io = new AbortController();

  constructor(name: string, slots: number, record: SlotRecord, list: ListSlots) {
    this.#name = name;
    this.#slots = slots;
    this.#record = record;
    this.#list = list;
    this.#choice = new SlotChoice(slots, (slot) => !this.#held.has(slot) && !this.#trying.has(slot));
    this.#line = new SlotLine(name, () => this.#pausing?.abort());
  }

  /** Settles the waiter when it is its turn. One that does not wait gets nothing while others wait for a slot to become free. */
  enqueue(waiter: SlotWaiter): void {
    if (waiter.isSettled()) return;
    if (waiter.isTry && (this.#pausing || this.#held.size === this.#slots)) {
      waiter.attempted();
      return;
    }
    if (this.#waiters.size === 0) {
      this.#sinceProgress = startStopwatch();
      this.#yieldInLoop();
    }
    waiter.onSettled = () => this.#leave(waiter);
    this.#waiters.add(waiter);
    if (this.#held.size === this.#slots) waiter.attempted();
    // Callers that wait have found the slots taken: this one is behind them.
    if (!this.#pausing) this.#continue();
  }

  /**
   * A loop of single calls releases its slot each time, and would always be the first to acquire it again. Callers that wait for less than
   * that, or not at all, get no slot then.
   */
  #yieldInLoop(): void {
    if (!this.#sinceRelease || this.#sinceRelease() > recentInMs || this.#usedForInMs() < minTurnInMs || this.#isLooking) return;
    void this.#look(async () => {
      if (!(await this.#record.othersWait())) return;
      this.#sinceRelease = undefined;
      this.#choice.yield();
    });
  }

  /** Starts whatever can be done now for the callers that wait. Never throws. */
  #continue(): void {
    if (this.#waiters.size === 0 || this.#isLooking || this.#pausing || this.#held.size === this.#slots) return;
    if (!this.#record.isChecked) {
      void this.#look(() => this.#record.check({ abortSignal: this.#io.signal }));
      return;
    }
    const poll = (this.#poll ??= new SlotPoll());
    const busy = this.#tries + this.#handOvers;
    let n = 0;
    for (const waiter of this.#waiters) {
      if (n >= maxParallel) return;
      // The first callers get what is in flight.
      if (n++ < busy) continue;
      const slot = this.#choice.next(poll, this.#maySpread(poll) && poll.mayTryBlindly(this.#mayList, this.#waiters.size));
      if (slot === undefined) break;
      void this.#try(slot, waiter, poll);
    }
    if (this.#tries > 0 || this.#handOvers > 0) return;
    if (this.#mayList && poll.mayLook(this.#slots - this.#held.size)) void this.#look(() => this.#lookForFree(poll));
    else this.#endPoll(poll);
  }

  /**
   * Whether a slot may be tried of which nothing is known. If several have not responded in time, it is the service that does not respond, and
   * not a slot: the number of requests during an outage must not grow with the number of slots. A listing shows whether it responds again.
   */
  #maySpread({ free }: SlotPoll): boolean {
    return free !== undefined || this.#trying.size - this.#tries < maxSlow;
  }

  /** How many tries are in flight that may have a response soon. */
  get #tries(): number {
    let tries = 0;
    for (const { slow } of this.#trying.values()) if (!slow) tries++;
    return tries;
  }

  async #try(slot: number, waiter: SlotWaiter, poll: SlotPoll): Promise<void> {
    const attempt = { slow: false };
    this.#trying.set(slot, attempt);
    poll.tried.add(slot);
    const stopTimer = startTimer(slowAfterInMs, () => {
      attempt.slow = true;
      this.#continue();
    });
    const { locks, options, key } = waiter;
    const { signal } = this.#io;
    waiter.trace.begin();
    const { tracingOptions } = waiter.trace;
    const tried = await locks.tryAcquireSlot(`${this.#name}/${slot}`, { ...options, abortSignal: signal, tracingOptions }).then(
      (grant) => ({ grant }),
      (error: unknown) => ({ error }),
    );
    stopTimer();
    this.#trying.delete(slot);
    if ("grant" in tried && tried.grant) this.#hold(slot, tried.grant, key);
    else {
      this.#choice.forget(slot);
      if ("grant" in tried) poll.taken++;
      else if (!signal.aborted) this.#onFailure(slot, tried.error, poll);
    }
    this.#continue();
  }

  #onFailure(slot: number, error: unknown, poll: SlotPoll): void {
    logger.verbose(`slot ${slot} of ${this.#name} is left out for a while: ${errorLabel(error)}`);
    poll.failed++;
    poll.lastFailure = error;
    if (poll !== this.#poll) this.#lateFailure = error;
    this.#choice.avoid(slot);
    // The container does not exist: the other slots do not, either.
    if (isConcurrencyError(error, "TARGET_NOT_FOUND")) this.#rejectAll(error);
  }

  /** The lease of a slot is acquired: it goes to the first caller that wants it in this way. */
  #hold(slot: number, grant: SlotGrant, key: string): void {
    const offLost = grant.lease.onLost(() => this.#onNoLongerHeld(held));
    const turnInMs = minTurnInMs * (1 + Math.random());
    if (this.#held.size === 0 && !(this.#sinceRelease && this.#sinceRelease() <= recentInMs)) this.#usedForInMs = startStopwatch();
    const held: HeldSlot = { slot, grant, key, heldForInMs: startStopwatch(), turnInMs, offLost };
    this.#held.set(slot, held);
    this.#choice.works(slot);
    this.#failures.end();
    this.#lateFailure = undefined;
    this.#line.pass();
    this.#give(held, grant.token, false);
  }

  #give(held: HeldSlot, token: SlotGrant["token"], isHandOver: boolean): void {
    const { slot, grant, key } = held;
    const waiter = find(this.#waiters, (other) => other.key === key);
    if (!waiter || !grant.lease.isHeld()) {
      this.#release(held).catch((error: unknown) => logger.warning(`slot ${slot} of ${this.#name}, which no caller wanted any more, could not be released: ${errorLabel(error)}`));
      return;
    }
    grant.lease.tracingOptions = waiter.holderTracing;
    this.#sinceProgress = startStopwatch();
    if (isHandOver) recorder?.countHandOver(waiter.kind);
    waiter.resolve(new LockHandleImpl(`${this.#name}/${slot}`, { lease: grant.lease, token, kind: waiter.kind, release: () => this.#handOverOrRelease(held) }), "acquired");
    if (this.#held.size === this.#slots) for (const other of this.#waiters) other.attempted();
  }

  async #handOverOrRelease(held: HeldSlot): Promise<void> {
    if (!this.#mayHandOver(held)) return this.#release(held);
    if (held.heldForInMs() >= held.turnInMs && (await this.#record.othersWait())) {
      this.#choice.yield();
      return this.#release(held);
    }
    if (!this.#mayHandOver(held)) return this.#release(held);
    // The holder that releases it need not wait until the next one has it.
    void this.#handOver(held);
  }

  #mayHandOver(held: HeldSlot): boolean {
    const [next] = this.#waiters;
    return next?.key === held.key && next.options.autoRenew !== false && !held.grant.lease.check() && this.#held.get(held.slot) === held;
  }

  /** Confirms the lease first: no holder starts work on one that was broken long ago. That costs at most one request a second. */
  async #handOver(held: HeldSlot): Promise<void> {
    const { lease } = held.grant;
    this.#handOvers++;
    try {
      await lease.whenIdle();
      if (lease.unconfirmedForInMs > confirmAfterInMs) await lease.renew().catch(() => undefined);
      const [first] = this.#waiters;
      const token = first && (await held.grant.next(this.#waiters.size, { tracingOptions: first.trace.tracingOptions, onRequest: () => first.trace.countRequest() }));
      if (token) this.#give(held, token, true);
      else await this.#release(held);
    } catch (error) {
      logger.verbose(`slot ${held.slot} of ${this.#name} could not be handed over: ${errorLabel(error)}`);
      await this.#release(held).catch(() => undefined);
    } finally {
      this.#handOvers--;
    }
    this.#continue();
  }

  async #release(held: HeldSlot): Promise<void> {
    try {
      await held.grant.release();
    } finally {
      this.#choice.prefer(held.slot);
      this.#sinceRelease = startStopwatch();
      this.#onNoLongerHeld(held);
    }
  }

  #onNoLongerHeld(held: HeldSlot): void {
    held.offLost();
    if (this.#held.get(held.slot) !== held) return;
    this.#held.delete(held.slot);
    this.#poll?.tried.delete(held.slot);
    if (!this.#choice.isAvoided(held.slot)) this.#pausing?.abort();
    this.#continue();
  }

  async #lookForFree(poll: SlotPoll): Promise<void> {
    try {
      const taken = await read(this.#list, { timeoutInMs: listTimeoutInMs, abortSignal: this.#io.signal });
      poll.taken += taken.size;
      const holders = JSON.stringify([...taken]);
      if (holders !== this.#holders) this.#sinceChange = startStopwatch();
      this.#holders = holders;
      poll.free = Array.from({ length: this.#slots }, (_, slot) => slot).filter((slot) => !taken.has(slot));
    } catch (error) {
      if (isUnauthorized(error)) this.#mayList = false;
      else {
        poll.free = [];
        poll.lastFailure = error;
      }
    }
  }

  /** One request for all callers, before anything else is done. */
  async #look(run: () => Promise<void>): Promise<void> {
    this.#isLooking = true;
    try {
      await run();
    } catch (error) {
      this.#rejectAll(error);
    }
    this.#isLooking = false;
    this.#continue();
  }

  /** No slot is left to be tried. */
  #endPoll(poll: SlotPoll): void {
    this.#poll = undefined;
    const failure = poll.lastFailure ?? this.#lateFailure;
    this.#lateFailure = undefined;
    if (poll.taken > 0 || failure === undefined) {
      // Without any response, it is not known whether the slots are taken.
      if (poll.taken > 0 || this.#trying.size === 0) {
        this.#failures.end();
        for (const waiter of [...this.#waiters]) waiter.attempted();
      }
      if (this.#waiters.size > 0 && poll.taken > 0) this.#waitBehindOthers();
    } else if (!(isTransient(failure) || isConcurrencyError(failure, "OPERATION_TIMEOUT")) || this.#failures.add()) this.#rejectAll(failure);
    else for (const waiter of [...this.#waiters]) waiter.attempted(failure);
    if (this.#waiters.size > 0) void this.#pause();
  }

  async #pause(): Promise<void> {
    const pausing = (this.#pausing = new AbortController());
    for (const { trace } of this.#waiters) trace.end("taken");
    await delay(this.#pauseInMs(), pausing.signal).catch(() => undefined);
    this.#pausing = undefined;
    // One request looks at all slots, however many callers wait. A single slot is tried at once.
    this.#poll = new SlotPoll(this.#slots - this.#held.size);
    this.#continue();
  }

  /**
   * Other processes have all slots. Those that hold them are told, and those that wait get them in the order of the line. A process whose
   * callers have slots all the time leaves it to those that have none.
   */
  #waitBehindOthers(): void {
    this.#record.announce();
    const [first] = this.#waiters;
    if (first && ((this.#choice.isYielding && this.#held.size === 0) || this.#sinceProgress() >= patienceInMs)) this.#line.enter(first.locks);
  }

  #pauseInMs(): number {
    const { firstForInMs, isBehind } = this.#line;
    // While the slots change hands, the next one may be free soon.
    if (firstForInMs !== undefined) return pollDelay(Math.max(minFirstInMs, Math.min(firstForInMs, this.#sinceChange())));
    const usual = pollDelay(Math.max(minWaitedInMs, this.#sinceProgress()));
    return isBehind ? Math.max(behindInLine * usual, jitter(behindPollInMs * Math.min(1, slotsOfLine / this.#slots), 0.2)) : usual;
  }

  #rejectAll(error: unknown): void {
    for (const waiter of [...this.#waiters]) waiter.reject(error);
  }

  #leave(waiter: SlotWaiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size > 0) return;
    this.#line.leave();
    this.#poll = undefined;
    this.#pausing?.abort();
    if (!this.#isLooking && this.#trying.size === 0) return;
    this.#io.abort();
    this.#io = new AbortController();
  }
}

function find<T>(items: Iterable<T>, accept: (item: T) => boolean): T | undefined {
  for (const item of items) if (accept(item)) return item;
  return undefined;
}

/** The queues that this process knows. Bounded: the one that was used least recently is forgotten. */
const maxRemembered = 1_000;
const remembered = new WeakMap<object, Recent<SlotQueue>>();

/** The queue of all callers in this process that use the same semaphore with the same credentials. */
export function slotQueueFor(locks: BlobLocks, name: string, slots: number, list: ListSlots): SlotQueue {
  const { owner, key } = leaseAdapterOf(locks.blobOf(name));
  let queues = remembered.get(owner);
  if (!queues) remembered.set(owner, (queues = new Recent<SlotQueue>(maxRemembered)));
  return queues.get(JSON.stringify([key, slots]), () => new SlotQueue(name, slots, new SlotRecord(locks.sideBlobOf(name, "slots"), JSON.stringify(name), slots), list));
}
