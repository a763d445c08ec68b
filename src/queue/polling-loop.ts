import type { QueueLike, QueueMessageLike } from "../clients.js";
import { delay, fullJitter } from "../core/delay.js";
import { boundedRead } from "./bounded-call.js";
import { Slots } from "./capacity.js";
import { startClock } from "./clock.js";
import type { Clock } from "./clock.js";
import type { Emit, MessageHandler } from "./context.js";
import { putAside } from "./dead-letter.js";
import type { InboxVerdict } from "./inbox/inbox.js";
import { Latch } from "./latch.js";
import { around } from "./options.js";
import type { ConsumerSettings } from "./options.js";
import { workOn } from "./process-message.js";
import type { Workplace } from "./process-message.js";
import { Incoming } from "./received-message.js";

/** After the handlers were told to stop, so long they may take to do so. */
const abortGraceInMs = 1_000;

/** What a run tells of itself. */
export interface RunHealth {
  inFlight: number;
  lastPollOn: Date | undefined;
  lastSuccessOn: Date | undefined;
  consecutiveErrors: number;
}

/** One run of a consumer, from start to stop: the poller, and the messages on their way. */
export class Run<T> {
  readonly #place: Workplace<T>;
  readonly #slots: Slots;
  readonly #stopping = new Latch();
  readonly #stopHandlers = new Latch();
  readonly #dropAll = new Latch();
  readonly #works = new Set<Promise<void>>();
  readonly #polling: Promise<void>;
  #wake = new AbortController();
  #lastPollOn: Date | undefined;
  #lastSuccessOn: Date | undefined;
  #errors = 0;
  #inboxErrors = 0;

  constructor(queue: QueueLike, handler: MessageHandler<T>, settings: ConsumerSettings<T>, emit: Emit) {
    this.#slots = new Slots(settings.concurrency);
    this.#place = {
      queue,
      handler,
      settings,
      emit: (event, ...args) => {
        if (event === "completed" || event === "duplicate") this.#lastSuccessOn = new Date();
        emit(event, ...args);
      },
      stopHandlers: this.#stopHandlers,
      dropAll: this.#dropAll,
    };
    this.#polling = this.#poll();
  }

  get health(): RunHealth {
    return {
      inFlight: this.#slots.taken,
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
    const clock = startClock();
    const { drainTimeoutInMs } = this.#place.settings;
    this.#stopping.abort();
    this.#wake.abort();
    this.#slots.wake();
    const left = (): number => Math.max(0, drainTimeoutInMs - clock());
    // A receive in flight is not cut off: it may have hidden messages, which would be charged with an attempt.
    const drained = (await within(left(), this.#polling)) && (await within(left(), this.#idle()));
    if (!drained) {
      this.#stopHandlers.abort(new DOMException("the consumer stops", "AbortError"));
      if (!(await within(abortGraceInMs, this.#idle()))) this.#dropAll.abort();
    }
    await this.#polling;
    await this.#idle();
    this.#place.emit("stopped");
  }

  /** The loop that ends with `stop()` and for no other reason. */
  async #poll(): Promise<void> {
    const { settings, emit } = this.#place;
    let interval = settings.minPollInMs;
    while (!this.#stopping.aborted) {
      const room = await this.#slots.room();
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
        const nextPollInMs = around(interval);
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
    return this.#stopping.aborted;
  }

  async #receive(numberOfMessages: number): Promise<number> {
    const { queue, settings } = this.#place;
    const visibilityTimeout = settings.visibilityTimeoutInSeconds;
    this.#lastPollOn = new Date();
    const clock = startClock();
    // An answer that comes later would leave too little of the messages' time.
    const answer = await boundedRead(Math.min(30_000, visibilityTimeout * 500), (options) =>
      queue.receiveMessages({ ...options, numberOfMessages, visibilityTimeout }),
    );
    const messages = answer.receivedMessageItems;
    if (messages.length > 0) {
      this.#slots.take(messages.length);
      this.#track(this.#accept(messages, clock, answer.date));
    }
    return messages.length;
  }

  async #accept(messages: readonly QueueMessageLike[], clock: Clock, receivedOn: Date | undefined): Promise<void> {
    const { queue, settings, emit } = this.#place;
    const batch = messages.map((message) => new Incoming(queue, message, settings, clock, receivedOn));
    const opened = await Promise.all(batch.map((incoming) => this.#open(incoming)));
    const readable = batch.filter((_, i) => opened[i]);
    for (const incoming of readable) emit("received", incoming.info);
    const verdicts = await this.#claim(readable);
    readable.forEach((incoming, i) => this.#track(this.#act(incoming, verdicts[i]).finally(() => this.#slots.release())));
  }

  /** Whether the message can be read. One that cannot is put aside. */
  async #open(incoming: Incoming<T>): Promise<boolean> {
    try {
      await incoming.open();
      return true;
    } catch (error) {
      const work = this.#isStopping() ? incoming.giveBack() : putAside(this.#place, incoming, "cannot be decoded", error);
      this.#track(work.then(() => incoming.ownership.abandon()).finally(() => this.#slots.release()));
      return false;
    }
  }

  /**
   * Asks the inbox, and waits for it as long as it is out: nothing is handled without it. The messages are kept
   * meanwhile; after a while they are given back, as others may have better luck. No verdict: to be given back.
   */
  async #claim(batch: readonly Incoming<T>[]): Promise<readonly (InboxVerdict | "no inbox")[]> {
    const { inbox, visibilityTimeoutInSeconds } = this.#place.settings;
    if (this.#isStopping()) return [];
    if (inbox?.mode !== "claim") return batch.map(() => "no inbox");
    const clock = startClock();
    for (let attempt = 0; ; attempt++) {
      try {
        const deliveries = batch.map(({ delivery }) => delivery);
        const verdicts = await inbox.claim(deliveries, { abortSignal: this.#stopping });
        this.#inboxErrors = 0;
        return verdicts;
      } catch (error) {
        if (this.#isStopping()) return [];
        this.#inboxErrors++;
        this.#place.emit("error", error);
        if (clock() > visibilityTimeoutInSeconds * 1_000) return [];
        await delay(fullJitter(attempt, 100, 10_000), this.#stopping).catch(() => undefined);
        if (this.#isStopping()) return [];
      }
    }
  }

  async #act(incoming: Incoming<T>, verdict: InboxVerdict | "no inbox" | undefined): Promise<void> {
    const { emit } = this.#place;
    const { ownership, info } = incoming;
    try {
      if (ownership.remainingInMs <= 0) {
        emit("lost", { ...info, error: ownership.signal.reason as unknown });
      } else if (verdict === undefined) {
        await incoming.giveBack();
      } else if (verdict === "no inbox") {
        await workOn(this.#place, incoming, undefined);
      } else if (verdict.kind === "claimed") {
        incoming.countedByInbox(verdict.claim.attempts);
        await workOn(this.#place, incoming, verdict.claim);
      } else if (verdict.kind === "done") {
        await ownership.delete();
        emit("duplicate", info);
      } else if (verdict.kind === "busy") {
        await incoming.giveBack(waitForTwin(verdict.forInMs, incoming.uncharged));
      }
      // Outdated: somebody else has it.
    } catch (error) {
      emit("error", error);
    } finally {
      ownership.abandon();
    }
  }

  #backoff(errors: number): number {
    const { minPollInMs, maxPollInMs } = this.#place.settings;
    return around(Math.min(maxPollInMs, minPollInMs * 2 ** Math.min(errors, 20)));
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
        this.#place.emit("error", error);
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

async function within(ms: number, work: Promise<void>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
