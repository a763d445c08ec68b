import { delay, startStopwatch } from "../core/deadline.js";
import { actOnExpiry, actOnOutcome } from "./act-on-outcome.js";
import type { Outcome } from "./act-on-outcome.js";
import { Capacity } from "./capacity.js";
import { claimBatch } from "./claim-batch.js";
import type { ConsumerContext } from "./context.js";
import type { InboxClaimResult } from "./inbox/inbox.js";
import type { PollPace } from "./poll-pace.js";
import type { Successor } from "./process-message.js";
import { maxWaitInMs } from "./received-message.js";
import type { ReceivedMessage } from "./received-message.js";
import { WaitingMessages } from "./waiting-messages.js";
import type { Excess } from "./waiting-messages.js";

/**
 * How long a message waits for a group of another consumer, at least. Longer than a crashed process or a lost response delays a message:
 * those that are given back meanwhile would be away when their turn comes, one after the other.
 */
const minParkInMs = 30_000;

/** Messages of groups whose predecessors end within this time are claimed together. */
const claimTogetherInMs = 5;

/** Messages whose lives end within this time are given up together. */
const expireTogetherInMs = 1_000;

/** Claims the messages of a consumer, and runs a handler for each, at most `concurrency` at a time and one of a group. */
export class Dispatcher<T> {
  readonly capacity: Capacity;
  /** Those that were received and are not settled. */
  readonly messages: Set<ReceivedMessage<T>> = new Set();
  readonly #consumer: ConsumerContext<T>;
  readonly #pace: PollPace;
  readonly #stopping: AbortSignal;
  readonly #tasks = new Set<Promise<void>>();
  /** Messages that wait for another one of their group. */
  readonly #waiting: WaitingMessages<T>;
  /** Those of them whose turn it is. */
  #nextOfGroups: ReceivedMessage<T>[] = [];
  /** Messages whose slot the next one of their group has. */
  readonly #handedOver = new Set<ReceivedMessage<T>>();

  constructor(consumer: ConsumerContext<T>, pace: PollPace) {
    const { concurrency, visibilityTimeoutInSeconds } = consumer.settings;
    this.#consumer = consumer;
    this.#pace = pace;
    this.#stopping = consumer.stopping;
    this.capacity = new Capacity(concurrency);
    const expire = (message: ReceivedMessage<T>): void => this.track(actOnExpiry(consumer, message).finally(() => this.messages.delete(message)));
    this.#waiting = new WaitingMessages(concurrency, Math.max(minParkInMs, visibilityTimeoutInSeconds * 1_000), expire);
  }

  /** Starts no more handlers, and gives back what waits for its group. */
  end(): void {
    this.capacity.end();
    for (const message of this.#waiting.drain()) this.#giveBackWaiting(message, undefined);
  }

  /** Until nothing of it is in flight: a task may start others before it ends. */
  async idle(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
  }

  track(task: Promise<unknown>): void {
    const tracked = task
      .then(
        () => undefined,
        (error: unknown) => this.#consumer.emit("error", error),
      )
      .finally(() => this.#tasks.delete(tracked));
    this.#tasks.add(tracked);
  }

  /** Settles a message that no handler can have. */
  settleUnopened(message: ReceivedMessage<T>, settle: () => Promise<unknown>): void {
    const ended = settle().finally(() => {
      // Also if it failed: the message would be renewed for ever, even after stop().
      message.lease.abandon();
      this.messages.delete(message);
      this.capacity.release();
    });
    this.track(ended);
  }

  /** Claims messages, except those that wait for another one of their group. */
  async start(messages: readonly ReceivedMessage<T>[]): Promise<void> {
    if (!this.#consumer.settings.inbox || this.#stopping.aborted) return this.#claimAndDispatch(messages);
    const { ready, waiting, excess } = this.#waiting.admit(messages);
    for (let i = 0; i < waiting + excess.length; i++) this.capacity.release();
    this.#giveBackExcess(excess);
    this.#pace.admitted(messages.length - excess.length, excess.length);
    return this.#claimAndDispatch(ready);
  }

  /**
   * Claims messages, and dispatches each of them, except those that wait for another consumer. While the inbox cannot be used, they wait
   * for it; those whose life is about to end are given up before the others.
   */
  async #claimAndDispatch(messages: readonly ReceivedMessage<T>[], timeoutInMs: number = this.#consumer.settings.visibilityTimeoutInSeconds * 1_000): Promise<void> {
    const elapsedInMs = startStopwatch();
    const expires = this.#consumer.settings.poisonQueue !== undefined;
    const waits = messages.map(({ lifeInMs }) => (expires ? maxWaitInMs(lifeInMs) : Infinity));
    const shortestInMs = Math.min(timeoutInMs, ...waits);
    const outcomes = await this.#claim(messages, shortestInMs);
    const mayWait = outcomes.length === 0 && shortestInMs < timeoutInMs && !this.#stopping.aborted;
    // Those that were sent together expire together: they should not be tried one by one.
    const others = mayWait ? messages.filter((_, i) => (waits[i] ?? 0) > shortestInMs + expireTogetherInMs) : [];
    messages.forEach((message, i) => {
      if (others.includes(message)) return;
      const outcome = outcomes[i];
      if (message.group !== undefined && typeof outcome === "object" && outcome.kind === "claimed") this.#waiting.claimed(message.group);
      this.#proceed(message, outcome);
    });
    if (others.length > 0) await this.#claimAndDispatch(others, Math.max(1, timeoutInMs - elapsedInMs()));
  }

  #proceed(message: ReceivedMessage<T>, outcome: Outcome): void {
    if (this.#park(message, outcome)) return;
    const dispatched = actOnOutcome(this.#consumer, message, outcome, () => this.#takeSuccessor(message)).finally(() => {
      this.messages.delete(message);
      if (this.#handedOver.delete(message)) return;
      this.capacity.release();
      this.#passOn(message, outcome);
    });
    this.track(dispatched);
  }

  /** Lets a message wait whose group another consumer has, or whose turn comes soon. */
  #park(message: ReceivedMessage<T>, outcome: Outcome): boolean {
    const { group } = message;
    if (group === undefined || typeof outcome !== "object" || (outcome.kind !== "busy" && outcome.kind !== "gap") || this.#stopping.aborted) return false;
    const parked = this.#waiting.park(message, outcome);
    if (!parked) return false;
    this.capacity.release();
    this.#giveBackExcess(parked.excess);
    this.#startNextLater(group, parked.delayInMs);
    return true;
  }

  /** Lets the next message of the group start, if this consumer has one. If none can be claimed, all of them are given back. */
  #passOn({ group }: ReceivedMessage<T>, outcome: Outcome): void {
    if (group === undefined) return;
    const kind = typeof outcome === "object" ? outcome.kind : outcome;
    const delayInMs = this.#waiting.ended(group);
    if (kind === undefined || kind === "gap") for (const other of this.#waiting.removeAll(group)) this.#giveBackWaiting(other, outcome);
    else if (kind === "busy") this.#startNextLater(group, this.#waiting.pollDelayOf(group));
    else if (delayInMs > 0) this.#startNextLater(group, delayInMs);
    else this.track(this.#startNext(group));
  }

  #startNextLater(group: string, delayInMs: number): void {
    const waited = delay(delayInMs, this.#stopping);
    this.track(waited.then(() => this.#startNext(group), () => undefined));
  }

  /** Claims the next message of a group. */
  async #startNext(group: string): Promise<void> {
    await this.capacity.take();
    const next = this.#waiting.next(group);
    if (!next) {
      this.capacity.release();
      return;
    }
    // Counted from now: it may have waited for longer than a claim lasts.
    next.claimClock = startStopwatch();
    this.#claimSoon(next);
  }

  /** Many handlers of one receive end at about the same time: their successors are claimed together. */
  #claimSoon(message: ReceivedMessage<T>): void {
    this.#nextOfGroups.push(message);
    if (this.#nextOfGroups.length > 1) return;
    const claimed = delay(claimTogetherInMs).then(() => {
      const messages = this.#nextOfGroups;
      this.#nextOfGroups = [];
      return this.#claimAndDispatch(messages);
    });
    this.track(claimed);
  }

  /** The message to which a message that is about to be completed hands its group and its slot over. */
  #takeSuccessor(message: ReceivedMessage<T>): Successor | undefined {
    const next = this.#stopping.aborted ? undefined : this.#waiting.takeSuccessor(message);
    if (!next) return undefined;
    // Its claim is not older than this, whichever request makes it: also if only a later claim shows that the hand-over was carried out.
    next.claimClock = startStopwatch();
    return {
      delivery: next.delivery,
      proceed: (result) => {
        this.#handedOver.add(message);
        if (result) this.#proceed(next, result);
        else this.#claimSoon(next);
      },
    };
  }

  #giveBackExcess(excess: readonly Excess<T>[]): void {
    for (const { message, delayInMs } of excess) {
      this.#giveBackWaiting(message, { kind: "excess", delayInMs });
    }
  }

  /** Gives a message back that has no slot. */
  #giveBackWaiting(message: ReceivedMessage<T>, outcome: Outcome): void {
    this.track(actOnOutcome(this.#consumer, message, outcome, () => undefined).finally(() => this.messages.delete(message)));
  }

  /** Retries while the inbox cannot be used, as long as `timeoutInMs`. A message without an outcome is to be given back. */
  async #claim(batch: readonly ReceivedMessage<T>[], timeoutInMs: number): Promise<readonly (InboxClaimResult | "no inbox")[]> {
    const { inbox, commits, overflow } = this.#consumer.settings;
    if (this.#stopping.aborted || batch.length === 0) return [];
    // A container that cannot be read delays its own messages only, and those without a blob show that others can be handled.
    if (overflow && !inbox && !commits) this.#pace.infrastructureWorks();
    if (!inbox) return batch.map(() => "no inbox");
    const outcomes = await claimBatch(inbox, batch, {
      timeoutInMs,
      abortSignal: this.#stopping,
      onFailure: (error) => void this.#pace.infrastructureFailed(error),
    });
    if (outcomes.length > 0) this.#pace.infrastructureWorks();
    return outcomes;
  }
}
