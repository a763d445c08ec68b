import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import { Deadline, delay, isAborted, onAbort } from "../core/deadline.js";
import { read } from "../core/request.js";
import { fullJitter, jitter, retry } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { Capacity } from "./capacity.js";
import type { ConsumerContext, Emit } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { Inbox, InboxClaim, InboxClaimResult } from "./inbox/inbox.js";
import type { ConsumerSettings } from "./options.js";
import { processMessage } from "./process-message.js";
import { ReceivedMessage } from "./received-message.js";

/** How long handlers may take to end after their signals were aborted, and then how long the release of their messages may take. */
const graceInMs = 1_000;

const unusedReleaseTimeoutInMs = 5_000;

/** The health of a polling loop. */
export interface PollingHealth {
  inFlight: number;
  lastPollOn: Date | undefined;
  lastSuccessOn: Date | undefined;
  consecutiveErrors: number;
}

/** One run of a consumer, from start to stop: the poller, and the messages in flight. */
export class PollingLoop<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #capacity: Capacity;
  readonly #stopping = new AbortController();
  readonly #stopHandlers = new AbortController();
  readonly #dropAll = new AbortController();
  readonly #tasks = new Set<Promise<void>>();
  readonly #messages = new Set<ReceivedMessage<T>>();
  readonly #polling: Promise<void>;
  #wake = new AbortController();
  #lastPollOn: Date | undefined;
  #lastSuccessOn: Date | undefined;
  #errors = 0;
  #inboxErrors = 0;

  constructor(queue: QueueLike, handler: ConsumerContext<T>["handler"], settings: ConsumerSettings<T>, emit: Emit) {
    this.#capacity = new Capacity(settings.concurrency);
    this.#consumer = {
      queue,
      handler,
      settings,
      emit: (event, detail) => {
        if (event === "completed" || event === "duplicate") this.#lastSuccessOn = new Date();
        emit(event, detail);
      },
      stopHandlers: this.#stopHandlers.signal,
      dropAll: this.#dropAll.signal,
    };
    this.#polling = this.#poll();
  }

  get health(): PollingHealth {
    return {
      inFlight: this.#capacity.taken,
      lastPollOn: this.#lastPollOn,
      lastSuccessOn: this.#lastSuccessOn,
      consecutiveErrors: this.#errors + this.#inboxErrors,
    };
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
    const { settings, emit } = this.#consumer;
    let interval = settings.minPollInMs;
    while (!this.#isStopping()) {
      const capacity = await this.#capacity.acquire();
      if (this.#isStopping()) break;
      // From here on, a call of notify() ends the pause that follows.
      this.#wake = new AbortController();
      try {
        const received = await this.#receive(capacity);
        this.#errors = 0;
        if (received > 0) {
          interval = settings.minPollInMs;
          // While the inbox cannot be reached, more messages would only wait with the others.
          if (this.#inboxErrors > 0) await this.#pause(this.#backoff(this.#inboxErrors));
          continue;
        }
        const nextPollInMs = jitter(interval, 0.2);
        interval = Math.min(interval * 2, settings.maxPollInMs);
        emit("empty", { nextPollInMs });
        if (await this.#pause(nextPollInMs)) interval = settings.minPollInMs;
      } catch (error) {
        if (isAborted(this.#stopHandlers.signal)) break;
        this.#errors++;
        emit("error", error);
        await this.#pause(this.#backoff(this.#errors));
      }
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
    if (messages.length > 0) {
      this.#capacity.take(messages.length);
      this.#track(this.#accept(messages, clock, received.date));
    }
    return messages.length;
  }

  async #accept(messages: readonly QueueMessageLike[], clock: Clock, receivedOn: Date | undefined): Promise<void> {
    const { queue, settings, emit } = this.#consumer;
    const batch = messages.map((message) => new ReceivedMessage(queue, message, settings, clock, receivedOn));
    for (const message of batch) this.#messages.add(message);
    const opened = await Promise.all(batch.map((message) => this.#open(message)));
    const readable = batch.filter((_, i) => opened[i]);
    for (const message of readable) emit("received", message.info);
    const outcomes = await this.#claim(readable);
    readable.forEach((message, i) => this.#track(this.#dispatch(message, outcomes[i]).finally(() => this.#settled(message))));
  }

  /** Whether the message can be decoded. One that cannot is moved to the poison queue. */
  async #open(message: ReceivedMessage<T>): Promise<boolean> {
    try {
      await message.open();
      return true;
    } catch (error) {
      const task = this.#isStopping() ? message.releaseUnstarted() : deadLetter(this.#consumer, message, "cannot be decoded", error);
      const ended = task.finally(() => {
        // Also if it failed: the message would be renewed for ever, even after stop().
        message.lease.abandon();
        this.#settled(message);
      });
      this.#track(ended.then(() => undefined));
      return false;
    }
  }

  #settled(message: ReceivedMessage<T>): void {
    this.#messages.delete(message);
    this.#capacity.release();
  }

  /**
   * Claims the messages in the inbox, and retries while it cannot be reached: no message is processed without it. The messages
   * are renewed meanwhile. After a visibility timeout they are released, as another consumer may be able to reach the inbox. A
   * message without an outcome is to be released.
   */
  async #claim(batch: readonly ReceivedMessage<T>[]): Promise<readonly (InboxClaimResult | "no inbox")[]> {
    const { inbox, visibilityTimeoutInSeconds } = this.#consumer.settings;
    if (this.#isStopping()) return [];
    if (!inbox) return batch.map(() => "no inbox");
    const { signal } = this.#stopping;
    const timeoutInMs = visibilityTimeoutInSeconds * 1_000;
    const elapsedInMs = startStopwatch();
    try {
      const claimOnce = (): Promise<readonly InboxClaimResult[]> => claimAll(inbox, batch, Math.max(1, timeoutInMs - elapsedInMs()), signal);
      const outcomes = await retry(claimOnce, {
        maxAttempts: Infinity,
        timeoutInMs,
        shouldRetry: () => true,
        onFailure: (error) => {
          if (signal.aborted) return;
          this.#inboxErrors++;
          this.#consumer.emit("error", error);
        },
        backoff: (attempt) => fullJitter(attempt - 1, 100, 10_000),
        abortSignal: signal,
      });
      this.#inboxErrors = 0;
      return outcomes;
    } catch {
      return [];
    }
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
        await message.releaseUnstarted();
      } else if (outcome === "no inbox") {
        await processMessage(this.#consumer, message, undefined);
      } else if (outcome.kind === "claimed") {
        message.setInboxFailures(outcome.claim.failures);
        await processMessage(this.#consumer, message, outcome.claim);
      } else if (outcome.kind === "completed") {
        await lease.delete();
        emit("duplicate", info);
      } else if (outcome.kind === "busy") {
        await message.releaseUnstarted(busyDelayInSeconds(outcome.retryAfterInMs, message.uncountedDeliveries));
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

  #backoff(errors: number): number {
    const { minPollInMs, maxPollInMs } = this.#consumer.settings;
    return jitter(Math.min(maxPollInMs, minPollInMs * 2 ** Math.min(errors, 20)), 0.2);
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
function busyDelayInSeconds(retryAfterInMs: number, earlierDeliveries: number): number {
  return Math.ceil(Math.min(retryAfterInMs, 1_000 * 2 ** Math.min(earlierDeliveries, 10)) / 1_000);
}

const claimKinds: readonly string[] = ["claimed", "completed", "busy", "superseded"] satisfies readonly InboxClaimResult["kind"][];

/** An inbox without types may return anything: no message may be handled on a claim that is not there. */
async function claimAll<T>(inbox: Inbox, batch: readonly ReceivedMessage<T>[], timeoutInMs: number, signal: AbortSignal): Promise<readonly InboxClaimResult[]> {
  const deliveries = batch.map(({ delivery }) => delivery);
  const results = await callInbox((request) => inbox.claim(deliveries, request), { timeoutInMs, abortSignals: [signal] });
  if (!Array.isArray(results) || results.length !== batch.length || results.some((result: InboxClaimResult) => !claimKinds.includes(result.kind))) {
    throw new TypeError(`Inbox: claim must return one result for each of the ${batch.length} deliveries`);
  }
  // The attempts are counted by it: with anything else, the message would be retried for ever.
  if (results.some((result: InboxClaimResult) => result.kind === "claimed" && !isCount((result.claim as InboxClaim | undefined)?.failures))) {
    throw new TypeError("Inbox: the failures of a claim must be a whole number of 0 or more");
  }
  return results as readonly InboxClaimResult[];
}

function isCount(value: number | undefined): boolean {
  return Number.isInteger(value) && Number(value) >= 0;
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
