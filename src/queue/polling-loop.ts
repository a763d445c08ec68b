import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import { Deadline, delay, isAborted, onAbort, RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isConcurrencyError } from "../errors.js";
import { Capacity } from "./capacity.js";
import { claimBatch } from "./claim-batch.js";
import type { ConsumerContext, Emit } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { InboxClaim, InboxClaimResult } from "./inbox/inbox.js";
import { defaultRetryDelay } from "./options.js";
import type { ConsumerSettings } from "./options.js";
import { PollPace } from "./poll-pace.js";
import { processMessage } from "./process-message.js";
import { QueueLength } from "./queue-length.js";
import { ReceivedMessage } from "./received-message.js";
import { failMessage } from "./settle.js";

/** How long handlers may take to end after their signals were aborted, and then how long the release of their messages may take. */
const graceInMs = 1_000;

const unusedReleaseTimeoutInMs = 5_000;

/** Messages whose payloads are decoded in this time are claimed together. A decoder that takes longer delays its own message only. */
const openTogetherInMs = 100;

/** The health of a polling loop. */
export interface PollingHealth {
  isPaused: boolean;
  inFlight: number;
  abandoned: number;
  lastPollOn: Date | undefined;
  lastSuccessOn: Date | undefined;
  consecutiveErrors: number;
  approximateMessageCount: number | undefined;
  oldestMessageInsertedOn: Date | undefined;
}

/** One run of a consumer, from start to stop: the poller, and the messages in flight. */
export class PollingLoop<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #pace: PollPace;
  readonly #capacity: Capacity;
  readonly #length: QueueLength;
  readonly #stopping = new AbortController();
  readonly #stopHandlers = new AbortController();
  readonly #dropAll = new AbortController();
  readonly #tasks = new Set<Promise<void>>();
  readonly #messages = new Set<ReceivedMessage<T>>();
  readonly #polling: Promise<void>;
  #wake = new AbortController();
  #abandoned = 0;
  #lastPollOn: Date | undefined;
  #lastSuccessOn: Date | undefined;

  constructor(queue: QueueLike, handler: ConsumerContext<T>["handler"], settings: ConsumerSettings<T>, emit: Emit) {
    this.#capacity = new Capacity(settings.concurrency);
    this.#length = new QueueLength(queue);
    this.#pace = new PollPace(settings, emit, () => this.#wake.abort());
    this.#consumer = {
      queue,
      handler,
      settings,
      emit: (event, detail) => {
        if (event === "completed" || event === "duplicate") this.#lastSuccessOn = new Date();
        emit(event, detail);
      },
      pace: this.#pace,
      retryDelay: (attempt, error) => {
        try {
          return settings.retryDelay(attempt, error);
        } catch (thrown) {
          // The message is retried all the same: it must not stay hidden because of it.
          emit("error", thrown);
          return defaultRetryDelay(attempt);
        }
      },
      abandon: (handling) => {
        this.#abandoned++;
        void handling.finally(() => this.#abandoned--);
      },
      stopHandlers: this.#stopHandlers.signal,
      dropAll: this.#dropAll.signal,
    };
    this.#polling = this.#poll();
  }

  /** Reads the length of the queue in the background, for the next call. */
  get health(): PollingHealth {
    if (!this.#isStopping()) this.#track(this.#length.refresh(this.#stopping.signal));
    return {
      isPaused: this.#pace.isPaused,
      inFlight: this.#capacity.taken,
      abandoned: this.#abandoned,
      lastPollOn: this.#lastPollOn,
      lastSuccessOn: this.#lastSuccessOn,
      consecutiveErrors: this.#pace.consecutiveErrors,
      approximateMessageCount: this.#length.approximateMessageCount,
      oldestMessageInsertedOn: this.#length.oldestMessageInsertedOn,
    };
  }

  pause(): void {
    this.#pace.pause();
  }

  resume(): void {
    this.#pace.resume();
  }

  /** Ends the wait for the next poll. */
  notify(): void {
    this.#wake.abort();
  }

  /**
   * Stops polling; waits for the handlers until `hurry` aborts; then aborts their signals; then drops the messages that are left.
   * The last two steps take two seconds at most.
   */
  async stop(hurry: AbortSignal): Promise<void> {
    this.#stopping.abort();
    this.#wake.abort();
    this.#capacity.wake();
    // A receive in flight is not cut off: it may have hidden messages, whose deliveries would count as attempts.
    const idle = this.#polling.then(() => this.#idle());
    if (!(await endsBefore(hurry, idle))) {
      this.#stopHandlers.abort(new DOMException("The consumer stops", "AbortError"));
      if (!(await within(graceInMs, idle))) this.#dropAll.abort();
      if (!(await within(graceInMs, idle))) for (const { lease } of this.#messages) lease.abandon();
    }
    await idle;
    this.#consumer.emit("stopped", {});
  }

  /** The loop ends with `stop()`, and for no other reason. */
  async #poll(): Promise<void> {
    while (!this.#isStopping()) {
      const capacity = await this.#capacity.acquire();
      if (this.#isStopping()) break;
      // From here on, a call of notify() ends the pause that follows.
      this.#wake = new AbortController();
      const waitInMs = this.#pace.isPauseRequested ? Infinity : await this.#pollOnce(this.#pace.messages(capacity));
      if (isAborted(this.#stopHandlers.signal)) break;
      if (waitInMs > 0 && (await this.#pause(waitInMs))) this.#pace.notified();
    }
  }

  /** Returns how long to wait. */
  async #pollOnce(messages: number): Promise<number> {
    try {
      return this.#pace.received(await this.#receive(messages));
    } catch (error) {
      return isAborted(this.#stopHandlers.signal) ? 0 : this.#pace.receiveFailed(error);
    }
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #receive(numberOfMessages: number): Promise<number> {
    const { queue, settings } = this.#consumer;
    const visibilityTimeout = settings.visibilityTimeoutInSeconds;
    this.#lastPollOn = new Date();
    const clock = startStopwatch();
    // A later response would leave too little of the visibility timeout.
    const received = await read((abortSignal) => queue.receiveMessages({ abortSignal, numberOfMessages, visibilityTimeout }), {
      timeoutInMs: Math.min(30_000, visibilityTimeout * 500),
      abortSignal: this.#stopHandlers.signal,
    });
    const messages = received.receivedMessageItems;
    this.#length.received(messages);
    if (messages.length > 0) {
      this.#capacity.take(messages.length);
      this.#track(this.#accept(messages, clock, received.date));
    }
    return messages.length;
  }

  async #accept(messages: readonly QueueMessageLike[], clock: Clock, receivedOn: Date | undefined): Promise<void> {
    const { queue, settings } = this.#consumer;
    const batch = messages.map((message) => new ReceivedMessage(queue, message, settings, clock, receivedOn));
    for (const message of batch) this.#messages.add(message);
    const together: ReceivedMessage<T>[] = [];
    let collects = true;
    const opened = batch.map(async (message) => {
      if (!(await this.#open(message))) return;
      this.#consumer.emit("received", message.info);
      if (collects) together.push(message);
      else await this.#start([message]);
    });
    for (const task of opened) this.#track(task);
    await within(openTogetherInMs, Promise.all(opened).then(() => undefined));
    collects = false;
    await this.#start(together);
  }

  /** Claims messages, and dispatches each of them. */
  async #start(messages: readonly ReceivedMessage<T>[]): Promise<void> {
    const outcomes = await this.#claim(messages);
    messages.forEach((message, i) => this.#track(this.#dispatch(message, outcomes[i]).finally(() => this.#settled(message))));
  }

  /** Whether the message can be decoded. One that cannot is moved to the poison queue. */
  async #open(message: ReceivedMessage<T>): Promise<boolean> {
    const { visibilityTimeoutInSeconds, maxProcessingTimeInMs } = this.#consumer.settings;
    const timeoutInMs = Math.min(visibilityTimeoutInSeconds * 1_000, maxProcessingTimeInMs);
    // Raced: the decoder and the schema are functions of the application, which may never settle.
    const limit = new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs, "the payload was not decoded in time"), this.#stopHandlers.signal);
    try {
      await limit.race(message.open());
      return true;
    } catch (error) {
      const ended = this.#settleUnopened(message, error, limit.signal.aborted && error === limit.signal.reason).finally(() => {
        // Also if it failed: the message would be renewed for ever, even after stop().
        message.lease.abandon();
        this.#settled(message);
      });
      this.#track(ended);
      return false;
    } finally {
      limit.dispose();
    }
  }

  async #settleUnopened(message: ReceivedMessage<T>, error: unknown, timedOut: boolean): Promise<void> {
    if (this.#isStopping()) await message.giveBack();
    else if (timedOut) await failMessage(this.#consumer, message, { error });
    else await deadLetter(this.#consumer, message, isConcurrencyError(error, "SCHEMA") ? "does not match the schema" : "cannot be decoded", error);
  }

  #settled(message: ReceivedMessage<T>): void {
    this.#messages.delete(message);
    this.#capacity.release();
  }

  /** A message without an outcome is to be given back. */
  async #claim(batch: readonly ReceivedMessage<T>[]): Promise<readonly (InboxClaimResult | "no inbox")[]> {
    const { inbox, visibilityTimeoutInSeconds } = this.#consumer.settings;
    if (this.#isStopping() || batch.length === 0) return [];
    if (!inbox) return batch.map(() => "no inbox");
    const outcomes = await claimBatch(inbox, batch, {
      timeoutInMs: visibilityTimeoutInSeconds * 1_000,
      abortSignal: this.#stopping.signal,
      onFailure: (error) => void this.#pace.infrastructureFailed(error),
    });
    if (outcomes.length > 0) this.#pace.infrastructureWorks();
    return outcomes;
  }

  async #dispatch(message: ReceivedMessage<T>, outcome: InboxClaimResult | "no inbox" | undefined): Promise<void> {
    const { emit } = this.#consumer;
    const { lease, info } = message;
    try {
      if (lease.remainingInMs <= 0) {
        emit("lost", { ...info, error: lease.lostError });
        // The handler was not started. The next delivery takes the claim over in any case, and then does not count this one.
        if (typeof outcome === "object" && outcome.kind === "claimed") await this.#releaseUnused(outcome.claim);
      } else if (outcome === undefined) {
        await message.giveBack();
      } else if (outcome === "no inbox") {
        await processMessage(this.#consumer, message, undefined);
      } else if (outcome.kind === "claimed") {
        message.setClaimFailures(outcome.claim.failures);
        await processMessage(this.#consumer, message, outcome.claim);
      } else if (outcome.kind === "completed") {
        await lease.delete();
        emit("duplicate", info);
      } else if (outcome.kind === "busy") {
        await message.giveBack(busyDelayInMs(outcome.retryAfterInMs, message.givenBack));
      } else if (outcome.kind === "payloadMismatch") {
        await deadLetter(this.#consumer, message, "its idempotency key was used before, for another payload", undefined);
      }
      // Superseded: another consumer has the message.
    } catch (error) {
      emit("error", error);
    } finally {
      lease.abandon();
    }
  }

  #releaseUnused(claim: InboxClaim): Promise<void> {
    return callInbox((request) => claim.release(false, request), { timeoutInMs: unusedReleaseTimeoutInMs, abortSignals: [this.#dropAll.signal] });
  }

  /** Waits until the time is over, or `notify` or `stop` is called. Returns whether it was cut short. */
  async #pause(ms: number): Promise<boolean> {
    if (this.#isStopping()) return true;
    return delay(ms, this.#wake.signal).then(
      () => false,
      () => true,
    );
  }

  #track(task: Promise<void>): void {
    const tracked = task
      .catch((error: unknown) => {
        this.#consumer.emit("error", error);
      })
      .finally(() => this.#tasks.delete(tracked));
    this.#tasks.add(tracked);
  }

  /** A task may start others before it ends. */
  async #idle(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
  }
}

/** Most handlers of another message with the same key end soon: the first delay is short, and the following ones are longer. */
function busyDelayInMs(retryAfterInMs: number, earlierDeliveries: number): number {
  return Math.min(retryAfterInMs, 1_000 * 2 ** Math.min(earlierDeliveries, 10));
}

/** Whether the task ended in time. */
async function within(ms: number, task: Promise<void>): Promise<boolean> {
  const deadline = new Deadline(ms, () => undefined);
  try {
    return await endsBefore(deadline.signal, task);
  } finally {
    deadline.dispose();
  }
}

/** Whether the task ended before the signal aborted. */
async function endsBefore(signal: AbortSignal, task: Promise<void>): Promise<boolean> {
  let off: (() => void) | undefined;
  const aborted = new Promise<false>((resolve) => (off = onAbort(signal, () => resolve(false))));
  try {
    return await Promise.race([task.then(() => true as const), aborted]);
  } finally {
    off?.();
  }
}
