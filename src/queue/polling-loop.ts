import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import { Deadline, delay, isAborted, onAbort, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { observed, recorder } from "../core/measure.js";
import { read } from "../core/request.js";
import type { ObservedConsumer } from "../core/measure.js";
import type { ConsumerContext, Emit } from "./context.js";
import { Dispatcher } from "./dispatcher.js";
import { openMessage } from "./open-message.js";
import { defaultRetryDelay } from "./options.js";
import type { ConsumerSettings } from "./options.js";
import { OutgoingQueues } from "./outgoing.js";
import { PoisonSender } from "./poison-sender.js";
import { PollPace } from "./poll-pace.js";
import { QueueLength } from "./queue-length.js";
import { ReceivedMessage } from "./received-message.js";
import { serviceTimeOf } from "./service-time.js";

/** How long handlers may take to end after their signals were aborted, and then how long the release of their messages may take. */
const graceInMs = 1_000;

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

/** How many handlers still run that are not waited for: they may outlive the run that has started them. */
export interface AbandonedHandlers {
  count: number;
}

/** One run of a consumer, from start to stop: the poller, and the messages in flight. */
export class PollingLoop<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #pace: PollPace;
  readonly #length: QueueLength;
  readonly #stopping = new AbortController();
  readonly #stopHandlers = new AbortController();
  readonly #dropAll = new AbortController();
  readonly #dispatcher: Dispatcher<T>;
  readonly #polling: Promise<void>;
  readonly #observed: ObservedConsumer;
  #wake = new AbortController();
  readonly #abandoned: AbandonedHandlers;
  #lastPollOn: Date | undefined;
  #lastSuccessOn: Date | undefined;

  constructor(queue: QueueLike, handler: ConsumerContext<T>["handler"], settings: ConsumerSettings<T>, emit: Emit, abandoned: AbandonedHandlers) {
    this.#abandoned = abandoned;
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
      outgoingQueues: new OutgoingQueues(settings.outgoingQueues),
      poisonSender: new PoisonSender(),
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
        abandoned.count++;
        void handling.finally(() => abandoned.count--);
      },
      stopping: this.#stopping.signal,
      stopHandlers: this.#stopHandlers.signal,
      dropAll: this.#dropAll.signal,
    };
    this.#dispatcher = new Dispatcher(this.#consumer, this.#pace);
    this.#observed = this.#observe(queue.name);
    observed.consumers.add(this.#observed);
    this.#polling = this.#poll();
  }

  #observe(name: string): ObservedConsumer {
    const { capacity } = this.#dispatcher;
    return {
      name,
      get inFlight() {
        return capacity.taken;
      },
      queueLength: async () => {
        await this.#length.refresh(this.#stopping.signal);
        return this.#length.approximateMessageCount;
      },
    };
  }

  /** Reads the length of the queue in the background, for the next call. */
  get health(): PollingHealth {
    if (!this.#isStopping()) this.#dispatcher.track(this.#length.refresh(this.#stopping.signal));
    return {
      isPaused: this.#pace.isPaused,
      inFlight: this.#dispatcher.capacity.taken,
      abandoned: this.#abandoned.count,
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
    this.#dispatcher.end();
    // A receive in flight is not cut off: it may have hidden messages, whose deliveries would count as attempts.
    const idle = this.#polling.then(() => this.#dispatcher.idle());
    if (!(await endsBefore(hurry, idle))) {
      this.#stopHandlers.abort(new DOMException("The consumer stops", "AbortError"));
      if (!(await within(graceInMs, idle))) this.#dropAll.abort();
      if (!(await within(graceInMs, idle))) for (const { lease } of this.#dispatcher.messages) lease.abandon();
    }
    await idle;
    observed.consumers.delete(this.#observed);
    this.#consumer.emit("stopped", {});
  }

  /** The loop ends with `stop()`, and for no other reason. */
  async #poll(): Promise<void> {
    while (!this.#isStopping()) {
      const capacity = await this.#dispatcher.capacity.acquire();
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
    if (messages.length > 0) this.#dispatcher.track(this.#accept(messages, clock, serviceTimeOf(received, visibilityTimeout)));
    return messages.length;
  }

  async #accept(messages: readonly QueueMessageLike[], clock: Clock, receivedOn: Date): Promise<void> {
    const { queue, settings } = this.#consumer;
    const batch = messages.map((message) => new ReceivedMessage(queue, message, settings, clock, receivedOn));
    for (const message of batch) this.#dispatcher.messages.add(message);
    const slots = this.#dispatcher.capacity.tryTake(batch.length);
    const together: ReceivedMessage<T>[] = [];
    let collects = true;
    const opened = batch.map(async (message, i) => {
      // Messages that had waited for their group may have taken slots since the poll began.
      if (i >= slots) await this.#dispatcher.capacity.take();
      const settle = await openMessage(this.#consumer, message, () => this.#isStopping());
      if (settle) {
        this.#dispatcher.settleUnopened(message, settle);
        return;
      }
      recorder?.countReceived(queue.name, message.waitedInMs);
      this.#consumer.emit("received", message.info);
      if (collects) together.push(message);
      else await this.#dispatcher.start([message]);
    });
    for (const task of opened) this.#dispatcher.track(task);
    await within(openTogetherInMs, Promise.all(opened).then(() => undefined));
    collects = false;
    await this.#dispatcher.start(together);
  }

  /** Waits until the time is over, or `notify` or `stop` is called. Returns whether it was cut short. */
  async #pause(ms: number): Promise<boolean> {
    if (this.#isStopping()) return true;
    return delay(ms, this.#wake.signal).then(
      () => false,
      () => true,
    );
  }
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
