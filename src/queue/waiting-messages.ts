import { startStopwatch, startTimer } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { jitter, pollDelay } from "../core/retry.js";
import { gapShare, minGapDelayInMs } from "./inbox/group-row.js";
import type { InboxClaimResult } from "./inbox/inbox.js";
import { maxWaitInMs } from "./received-message.js";
import type { ReceivedMessage } from "./received-message.js";

/** How many messages of one group wait at the same time: each of them is renewed, and no other consumer can have it. */
const maxPerGroup = 64;

/** How many messages wait in total, at least. */
const minTotal = 128;

/**
 * Payloads that are in blobs are in memory while their messages wait. A limit of their number would make those few that fit wait for the
 * many that do not: eight groups with a large message now and then took 45 s instead of 5 s.
 */
const maxStoredBytes = 32 * 1024 * 1024;

/** After this long a group without an order is free for a moment, as other processes may have messages of it. */
const maxTurnInMs = 5_000;
const yieldInMs = 250;

/** Messages for which there is no room come back when the others are likely to be done. A visibility timeout is in seconds. */
const minExcessDelayInMs = 1_000;
const maxExcessDelayInMs = 30_000;
/** Early: one that comes back too late keeps the group idle, and one that is too early is given back once more. */
const earlyFactor = 0.25;
/** How long a message of a group is assumed to take, until it is known. */
const firstEstimateInMs = 50;

/** A message for which there is no room, and for how long to give it back. */
export interface Excess<T> {
  readonly message: ReceivedMessage<T>;
  readonly delayInMs: number;
}

/** The messages of a receive, by what happens to them now. */
export interface Admission<T> {
  /** To be claimed. */
  readonly ready: readonly ReceivedMessage<T>[];
  /** How many of them wait for another message of their group. */
  readonly waiting: number;
  readonly excess: readonly Excess<T>[];
}

/** A message that waits until its group is free. */
export interface Parked<T> {
  /** When to claim the first message of the group again. */
  readonly delayInMs: number;
  readonly excess: readonly Excess<T>[];
}

/** A group of which this consumer has messages. */
interface Group<T> {
  readonly waiting: ReceivedMessage<T>[];
  /** Since when this consumer has had the group without a break. */
  heldFor: Clock | undefined;
  /** Since when another consumer has had it or, with a sequence, since the last progress that was seen. */
  blockedFor: Clock | undefined;
  /** As it was found when a message had to wait for another one, or as this consumer has set it. */
  lastSequence: number | undefined;
  /** When the last hand-over was. */
  handedOverAt: number | undefined;
  /** When those messages come back that were given back for lack of room. */
  readonly excess: number[];
}

/**
 * The messages of a consumer that wait for their group:
 *
 * | the group                                     | they wait                                                                               |
 * |-----------------------------------------------|-----------------------------------------------------------------------------------------|
 * | is had by another message of this consumer    | until that has ended. If it was completed, the group is handed over to the next of them |
 * | is had by another consumer                    | until a claim succeeds: the first of them is claimed again and again                    |
 * | is free, but it is not the turn of their sequence | the same, as long as the group makes progress                                       |
 *
 * Given back instead, each of them would lose a second or more, and cost more requests. They need no slot of the consumer meanwhile.
 */
export class WaitingMessages<T> {
  /** A group has an entry while one of its messages waits, is claimed or is handled. */
  readonly #groups = new Map<string, Group<T>>();
  readonly #concurrency: number;
  /** How long a message may wait for another consumer. */
  readonly #maxParkInMs: number;
  #count = 0;
  /** Of those that wait, how many have their payload in a blob, and how large these are together. */
  #storedCount = 0;
  #storedBytes = 0;
  /** How long one message of a group takes, from one hand-over to the next. */
  #estimateInMs = firstEstimateInMs;

  readonly #onExpiring: (message: ReceivedMessage<T>) => void;
  readonly #timers = new Map<ReceivedMessage<T>, () => void>();

  /**
   * @param concurrency - Of the consumer: up to 4 times as many messages wait, and as many large payloads, however large they are.
   * @param onExpiring - The time to live of a message is about to end. It waits no longer.
   */
  constructor(concurrency: number, maxParkInMs: number, onExpiring: (message: ReceivedMessage<T>) => void) {
    this.#concurrency = concurrency;
    this.#maxParkInMs = maxParkInMs;
    this.#onExpiring = onExpiring;
  }

  admit(messages: readonly ReceivedMessage<T>[]): Admission<T> {
    const ready: ReceivedMessage<T>[] = [];
    const excess: Excess<T>[] = [];
    const before = this.#count;
    for (const message of messages.toSorted(bySequence)) {
      const { group: name } = message;
      const group = name === undefined ? undefined : this.#groups.get(name);
      if (group) {
        // A message that was delivered before may be the one that has the group, and whose consumer has crashed: it can take it over at once.
        const isFirst = message.sequence === undefined && message.message.dequeueCount > 1 && group.blockedFor !== undefined;
        excess.push(...this.#insert(group, message, isFirst ? 0 : positionOf(group, message)));
      } else {
        if (name !== undefined) {
          this.#groups.set(name, { waiting: [], heldFor: undefined, blockedFor: undefined, lastSequence: undefined, handedOverAt: undefined, excess: [] });
        }
        ready.push(message);
      }
    }
    return { ready, waiting: this.#count - before, excess };
  }

  /** A message of the group was claimed. */
  claimed(name: string): void {
    const group = this.#groups.get(name);
    if (!group) return;
    group.heldFor = startStopwatch();
    group.blockedFor = undefined;
  }

  /** The message to which a message that is completed hands its group over. It waits no longer. */
  takeSuccessor({ group: name, sequence }: ReceivedMessage<T>): ReceivedMessage<T> | undefined {
    const group = name === undefined ? undefined : this.#groups.get(name);
    const next = group?.waiting[0];
    if (!group || !next || next.lease.remainingInMs <= 0) return undefined;
    // With a sequence, no other process can have anything that may start.
    if (sequence === undefined ? mustYield(group) : next.sequence !== sequence + 1) return undefined;
    this.#left(next);
    group.waiting.shift();
    group.lastSequence = sequence;
    const now = performance.now();
    if (group.handedOverAt !== undefined) this.#estimateInMs += (now - group.handedOverAt - this.#estimateInMs) / 5;
    group.handedOverAt = now;
    return next;
  }

  /** A message of the group has ended, and was not followed by another one. Returns after how long the next of them may be claimed. */
  ended(name: string): number {
    const group = this.#groups.get(name);
    if (!group) return 0;
    const delayInMs = mustYield(group) ? jitter(yieldInMs, 0.5) : 0;
    group.heldFor = group.handedOverAt = undefined;
    return delayInMs;
  }

  /** The next message of a group, to be claimed. */
  next(name: string): ReceivedMessage<T> | undefined {
    const next = this.#groups.get(name)?.waiting.shift();
    if (next) this.#left(next);
    else this.#groups.delete(name);
    return next;
  }

  /**
   * Lets a message wait that could not be claimed. Undefined: it has waited for too long, or it is not known whether its predecessor
   * will ever be completed.
   */
  park(message: ReceivedMessage<T>, result: Extract<InboxClaimResult, { kind: "busy" | "gap" }>): Parked<T> | undefined {
    const group = message.group === undefined ? undefined : this.#groups.get(message.group);
    if (!group || message.lease.remainingInMs <= 0) return undefined;
    const isFirst = positionOf(group, message) === 0 || message.sequence === undefined;
    if (result.kind === "gap") {
      // A consumer without the order keeps nothing from those that have it.
      if (message.sequence === undefined) return undefined;
      if (isFirst && result.retryAfterInMs > Math.max(minGapDelayInMs, this.#maxParkInMs * gapShare)) return undefined;
    }
    message.parkedFor ??= startStopwatch();
    if (message.parkedFor() > this.#maxParkInMs) return undefined;
    if (result.kind === "gap" && result.lastSequence !== group.lastSequence) {
      group.lastSequence = result.lastSequence;
      group.blockedFor = undefined;
    }
    group.blockedFor ??= startStopwatch();
    const excess = this.#insert(group, message, message.sequence === undefined ? 0 : positionOf(group, message));
    return { delayInMs: isFirst ? Math.min(pollDelay(group.blockedFor()), Math.max(1, result.retryAfterInMs)) : 0, excess };
  }

  /** How long to wait before the next message of a group is claimed that another consumer has. */
  pollDelayOf(name: string): number {
    return pollDelay(this.#groups.get(name)?.blockedFor?.() ?? 0);
  }

  /** The messages that wait in a group of which none can be claimed. They wait here no longer. */
  removeAll(name: string): readonly ReceivedMessage<T>[] {
    const waiting = this.#groups.get(name)?.waiting ?? [];
    this.#groups.delete(name);
    for (const message of waiting) this.#left(message);
    return waiting;
  }

  /** The messages that wait in all groups. */
  drain(): readonly ReceivedMessage<T>[] {
    return [...this.#groups.values()].flatMap(({ waiting }) => {
      for (const message of waiting) this.#left(message);
      return waiting.splice(0);
    });
  }

  #left(message: ReceivedMessage<T>): void {
    this.#count--;
    this.#countStored(message, -1);
    this.#timers.get(message)?.();
    this.#timers.delete(message);
  }

  #expire(group: Group<T>, message: ReceivedMessage<T>): void {
    const position = group.waiting.indexOf(message);
    if (position < 0) return;
    group.waiting.splice(position, 1);
    this.#left(message);
    this.#onExpiring(message);
  }

  /** Returns the message for which there is no room: of a sequence, the last one. */
  #insert(group: Group<T>, message: ReceivedMessage<T>, position: number): readonly Excess<T>[] {
    group.waiting.splice(position, 0, message);
    this.#count++;
    this.#countStored(message, 1);
    this.#timers.set(message, startTimer(maxWaitInMs(message.lifeInMs), () => this.#expire(group, message)));
    const excess = this.#excessIn(group);
    if (!excess) return [];
    group.waiting.splice(group.waiting.indexOf(excess), 1);
    this.#left(excess);
    return [{ message: excess, delayInMs: this.#excessDelayInMs(group, excess) }];
  }

  #excessIn({ waiting }: Group<T>): ReceivedMessage<T> | undefined {
    if (waiting.length > maxPerGroup || this.#count > Math.max(minTotal, 4 * this.#concurrency)) return waiting.at(-1);
    // As many as there are handlers may wait however large they are: otherwise a very large one might never find room.
    if (this.#storedBytes <= maxStoredBytes || this.#storedCount <= this.#concurrency) return undefined;
    return waiting.findLast(({ storedPayload }) => storedPayload !== undefined);
  }

  #countStored({ storedPayload }: ReceivedMessage<T>, by: 1 | -1): void {
    if (!storedPayload) return;
    this.#storedCount += by;
    this.#storedBytes += by * storedPayload.sizeInBytes;
  }

  /**
   * When it is likely to be its turn: with a sequence, by that; otherwise after those that wait, and those that were given back before it.
   * Together, they would find no room again. One that was given back often stays away longer, whatever the estimate.
   */
  #excessDelayInMs(group: Group<T>, { sequence, givenBack }: ReceivedMessage<T>): number {
    const now = performance.now();
    while (group.excess.length > 0 && (group.excess[0] ?? 0) <= now) group.excess.shift();
    const before = sequence === undefined ? group.waiting.length + group.excess.length : sequence - (group.lastSequence ?? (group.waiting[0]?.sequence ?? 1) - 1);
    const least = minExcessDelayInMs * (sequence === undefined ? 2 ** Math.min(10, Math.floor(givenBack / 8)) : 1);
    // The message that has the group may take longer than those before it: each delivery of one that has no room costs requests.
    const forInMs = group.handedOverAt === undefined ? (group.heldFor ?? group.blockedFor)?.() ?? 0 : now - group.handedOverAt;
    const delayInMs = Math.min(maxExcessDelayInMs, Math.max(least, earlyFactor * before * Math.max(this.#estimateInMs, forInMs)));
    group.excess.push(now + delayInMs);
    return delayInMs;
  }
}

function mustYield<T>({ heldFor }: Group<T>): boolean {
  return heldFor !== undefined && heldFor() > maxTurnInMs;
}

function positionOf<T>({ waiting }: Group<T>, message: ReceivedMessage<T>): number {
  const at = waiting.findIndex((other) => bySequence(message, other) < 0);
  return at === -1 ? waiting.length : at;
}

/** In the order in which they were received, if they have no sequence. */
function bySequence<T>(a: ReceivedMessage<T>, b: ReceivedMessage<T>): number {
  return (a.sequence ?? 0) - (b.sequence ?? 0);
}
