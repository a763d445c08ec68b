import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import { Deadline, delay } from "../core/deadline.js";
import { read } from "../core/request.js";
import { fullJitter, jitter, retry } from "../core/retry.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { Clock } from "../core/stopwatch.js";
import { Capacity } from "./capacity.js";
import type { ConsumerContext, Emit, MessageHandler } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import type { InboxVerdict } from "./inbox/inbox.js";
import type { ConsumerSettings } from "./options.js";
import { processMessage } from "./process-message.js";
import { ReceivedMessage } from "./received-message.js";

/** After the handlers were told to stop, so long they may take to do so. */
const abortGraceInMs = 1_000;

/** What a run tells of itself. */
export interface PollingHealth {
  inFlight: number;
  lastPollOn: Date | undefined;
  lastSuccessOn: Date | undefined;
  consecutiveErrors: number;
}

/** One run of a consumer, from start to stop: the poller, and the messages on their way. */
export class PollingLoop<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #capacity: Capacity;
  readonly #stopping = new AbortController();
  readonly #stopHandlers = new AbortController();
  readonly #dropAll = new AbortController();
  readonly #works = new Set<Promise<void>>();
  readonly #polling: Promise<void>;
  #wake = new AbortController();
  #lastPollOn: Date | undefined;
  #lastSuccessOn: Date | undefined;
  #errors = 0;
  #inboxErrors = 0;

  constructor(queue: QueueLike, handler: MessageHandler<T>, settings: ConsumerSettings<T>, emit: Emit) {
    this.#capacity = new Capacity(settings.concurrency);
    this.#consumer = {
      queue,
      handler,
      settings,
      emit: (event, ...args) => {
        if (event === "completed" || event === "duplicate") this.#lastSuccessOn = new Date();
        emit(event, ...args);
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

  /** Polls at once. */
  notify(): void {
    this.#wake.abort();
  }

  /** No more polling; then wait for the handlers; then tell them to stop; then drop what is left. */
  async stop(): Promise<void> {
    const { drainTimeoutInMs } = this.#consumer.settings;
    this.#stopping.abort();
    this.#wake.abort();
    this.#capacity.wake();
    // A receive in flight is not cut off: it may have hidden messages, whose deliveries would count as attempts.
    const drained = await within(drainTimeoutInMs, this.#polling.then(() => this.#idle()));
    if (!drained) {
      this.#stopHandlers.abort(new DOMException("the consumer stops", "AbortError"));
      if (!(await within(abortGraceInMs, this.#idle()))) this.#dropAll.abort();
    }
    await this.#polling;
    await this.#idle();
    this.#consumer.emit("stopped");
  }

  /** The loop that ends with `stop()` and for no other reason. */
  async #poll(): Promise<void> {
    const { settings, emit } = this.#consumer;
    let interval = settings.minPollInMs;
    while (!this.#isStopping()) {
      const room = await this.#capacity.acquire();
      if (this.#isStopping()) break;
      // From here on a call of notify() counts for the pause that follows.
      this.#wake = new AbortController();
      try {
        const received = await this.#receive(room);
        this.#errors = 0;
        if (received > 0) {
          interval = settings.minPollInMs;
          // With the inbox out, more messages would only wait with the others.
          if (this.#inboxErrors > 0) await this.#pause(this.#backoff(this.#inboxErrors));
          continue;
        }
        const nextPollInMs = jitter(interval, 0.2);
        interval = Math.min(interval * 2, settings.maxPollInMs);
        emit("empty", { nextPollInMs });
        if (await this.#pause(nextPollInMs)) interval = settings.minPollInMs;
      } catch (error) {
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
    // A response that comes later would leave too little of the messages' time.
    const received = await read((abortSignal) => queue.receiveMessages({ abortSignal, numberOfMessages, visibilityTimeout }), {
      timeoutInMs: Math.min(30_000, visibilityTimeout * 500),
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
    const opened = await Promise.all(batch.map((message) => this.#open(message)));
    const readable = batch.filter((_, i) => opened[i]);
    for (const message of readable) emit("received", message.info);
    const verdicts = await this.#claim(readable);
    readable.forEach((message, i) => this.#track(this.#act(message, verdicts[i]).finally(() => this.#capacity.release())));
  }

  /** Whether the message can be read. One that cannot is put aside. */
  async #open(message: ReceivedMessage<T>): Promise<boolean> {
    try {
      await message.open();
      return true;
    } catch (error) {
      const work = this.#isStopping() ? message.returnUnstarted() : deadLetter(this.#consumer, message, "cannot be decoded", error);
      this.#track(work.then(() => message.lease.abandon()).finally(() => this.#capacity.release()));
      return false;
    }
  }

  /**
   * Asks the inbox, and waits for it as long as it is out: nothing is handled without it. The messages are kept
   * meanwhile; after a while they are given back, as others may have better luck. No verdict: to be given back.
   */
  async #claim(batch: readonly ReceivedMessage<T>[]): Promise<readonly (InboxVerdict | "no inbox")[]> {
    const { inbox, visibilityTimeoutInSeconds } = this.#consumer.settings;
    if (this.#isStopping()) return [];
    if (inbox?.mode !== "claim") return batch.map(() => "no inbox");
    const { signal } = this.#stopping;
    try {
      const verdicts = await retry(() => inbox.claim(batch.map(({ delivery }) => delivery), { abortSignal: signal }), {
        maxAttempts: Infinity,
        timeoutInMs: visibilityTimeoutInSeconds * 1_000,
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
      return verdicts;
    } catch {
      return [];
    }
  }

  async #act(message: ReceivedMessage<T>, verdict: InboxVerdict | "no inbox" | undefined): Promise<void> {
    const { emit } = this.#consumer;
    const { lease, info } = message;
    try {
      if (lease.remainingInMs <= 0) {
        emit("lost", { ...info, error: lease.signal.reason as unknown });
      } else if (verdict === undefined) {
        await message.returnUnstarted();
      } else if (verdict === "no inbox") {
        await processMessage(this.#consumer, message, undefined);
      } else if (verdict.kind === "claimed") {
        message.countedByInbox(verdict.claim.attempts);
        await processMessage(this.#consumer, message, verdict.claim);
      } else if (verdict.kind === "done") {
        await lease.delete();
        emit("duplicate", info);
      } else if (verdict.kind === "busy") {
        await message.returnUnstarted(waitForTwin(verdict.forInMs, message.uncountedDeliveries));
      }
      // Outdated: somebody else has it.
    } catch (error) {
      emit("error", error);
    } finally {
      lease.abandon();
    }
  }

  #backoff(errors: number): number {
    const { minPollInMs, maxPollInMs } = this.#consumer.settings;
    return jitter(Math.min(maxPollInMs, minPollInMs * 2 ** Math.min(errors, 20)), 0.2);
  }

  /** Waits, unless `notify` or `stop` have had enough of it. Returns whether it was cut short. */
  async #pause(ms: number): Promise<boolean> {
    if (this.#isStopping()) return true;
    return delay(ms, this.#wake.signal).then(
      () => false,
      () => true,
    );
  }

  #track(work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => {
        this.#consumer.emit("error", error);
      })
      .finally(() => this.#works.delete(tracked));
    this.#works.add(tracked);
  }

  /** Works may begin others before they end. */
  async #idle(): Promise<void> {
    while (this.#works.size > 0) await Promise.all(this.#works);
  }
}

/** Most twins are done in a moment, so ask soon, and then less and less often. */
function waitForTwin(forInMs: number, before: number): number {
  return Math.ceil(Math.min(forInMs, 1_000 * 2 ** Math.min(before, 10)) / 1_000);
}

/** Whether the work ended in time. */
async function within(ms: number, work: Promise<void>): Promise<boolean> {
  const deadline = new Deadline(ms, () => undefined);
  try {
    await deadline.race(work);
    return true;
  } catch (error) {
    if (deadline.signal.aborted) return false;
    throw error;
  } finally {
    deadline.dispose();
  }
}
