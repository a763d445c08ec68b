import type { AbortSignalLike, QueueLike } from "../clients.js";
import { onAbort } from "../core/abort.js";
import { delay, fullJitter } from "../core/delay.js";
import { describeSpan, failSpan, inSpan } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { DeadlineError, MessageLostError } from "../errors.js";
import { startClock } from "./clock.js";
import type { Emit, MessageContext, MessageHandler } from "./context.js";
import { putAside } from "./dead-letter.js";
import type { Inbox, InboxClaim } from "./inbox/inbox.js";
import { KeepAlive } from "./keep-alive.js";
import type { ConsumerSettings } from "./options.js";
import type { Incoming } from "./received-message.js";

/** What working on a message needs to know of its consumer. */
export interface Workplace<T> {
  readonly queue: QueueLike;
  readonly handler: MessageHandler<T>;
  readonly settings: ConsumerSettings<T>;
  readonly emit: Emit;
  /** Aborts when the consumer is stopping and has waited long enough: handlers are to stop. */
  readonly stopHandlers: AbortSignalLike;
  /** Aborts when it has waited long enough for those, too: everything is dropped as it is. */
  readonly dropAll: AbortSignalLike;
}

/**
 * One attempt at one message: the handler, and what follows from how it ended.
 *
 * | handler                    | message                                                                        |
 * |----------------------------|--------------------------------------------------------------------------------|
 * | returned                   | inbox record done, then deleted: a crash in between is a duplicate, not a loss  |
 * | threw, or asked for retry  | visible again after the delay; poison after the last attempt                   |
 * | asked for poison           | sent to the poison queue, then deleted                                         |
 * | ended after it was lost    | nothing: it is somebody else's                                                 |
 * | ended after stop's abort   | visible again at once                                                          |
 * | had committed              | deleted, whatever else happened                                                |
 *
 * After an abort a return does not count as done, since handlers return early when they see it.
 */
export async function workOn<T>(place: Workplace<T>, incoming: Incoming<T>, claim: InboxClaim | undefined): Promise<void> {
  const attempt = new Attempt(place, incoming, claim);
  try {
    await attempt.run();
  } finally {
    attempt.end();
  }
}

type Wish = { readonly kind: "retry"; readonly delayInMs: number | undefined } | { readonly kind: "poison"; readonly reason: string };

class Attempt<T> {
  readonly #place: Workplace<T>;
  readonly #incoming: Incoming<T>;
  readonly #claim: InboxClaim | undefined;
  readonly #claimKeeper: KeepAlive | undefined;
  readonly #controller = new AbortController();
  readonly #offs: (() => void)[] = [];
  #wish: Wish | undefined;
  #committed: "committed" | "duplicate" | undefined;
  #commits = 0;
  /** The last event of it that is no error: how it ended. */
  #outcome: string | undefined;

  constructor(place: Workplace<T>, incoming: Incoming<T>, claim: InboxClaim | undefined) {
    this.#place = { ...place, emit: this.#listenTo(place.emit) };
    this.#incoming = incoming;
    this.#claim = claim;
    const { ownership } = incoming;
    this.#offs.push(
      onAbort(ownership.signal, () => this.#controller.abort(ownership.signal.reason)),
      onAbort(place.stopHandlers, () => this.#controller.abort(place.stopHandlers.reason)),
    );
    if (!claim) return;
    this.#claimKeeper = new KeepAlive(
      { renew: () => claim.extend(), lost: (error) => this.#controller.abort(this.#claimLost(error)) },
      claim.clock,
      claim.holdInMs,
    );
  }

  run(): Promise<void> {
    const { info, ownership, delivery } = this.#incoming;
    const { messageId, attempt, insertedOn } = info;
    const waitInMs = Math.max(0, Math.round(delivery.serviceTime() - insertedOn.getTime()));
    const facts = { targetKind: "queue", url: this.#place.queue.url, messageId, attempt, waitInMs };
    return inSpan("QueueConsumer.handle", {}, async (tracingOptions, span) => {
      ownership.tracingOptions = tracingOptions;
      await this.#run(tracingOptions, span);
      describeSpan(span, { outcome: this.#outcome, requests: ownership.requests });
    }, facts, "consumer");
  }

  async #run(tracingOptions: MessageContext["tracingOptions"], span: CallSpan): Promise<void> {
    const { emit, settings, stopHandlers } = this.#place;
    const { info } = this.#incoming;
    if (info.attempt > settings.maxAttempts) return this.#poison(`given up after ${settings.maxAttempts} attempts`, undefined);
    const clock = startClock();
    let error: unknown;
    try {
      await this.#handle(tracingOptions);
    } catch (thrown) {
      error = thrown ?? new Error("the handler rejected without a reason");
      failSpan(span, error);
    }
    if (this.#committed) return this.#finish(clock());
    const { signal } = this.#controller;
    if (signal.aborted) {
      if (signal.reason instanceof MessageLostError) {
        emit("lost", { ...info, error: signal.reason });
        return;
      }
      // Its record stays claimed: the next delivery of the same message takes it over at once.
      if (stopHandlers.aborted) return this.#again(0, signal.reason);
      error = signal.reason;
    }
    if (this.#wish?.kind === "poison") return this.#poison(this.#wish.reason, error);
    if (error === undefined && !this.#wish) return this.#finish(clock());
    if (info.attempt >= settings.maxAttempts) return this.#poison(`failed ${info.attempt} times`, error);
    return this.#again(this.#wish?.delayInMs ?? settings.retryDelay(info.attempt, error), error);
  }

  /** Takes off whatever is still waiting for something. */
  end(): void {
    for (const off of this.#offs) off();
    this.#claimKeeper?.stop();
    this.#claim?.abandon();
    this.#incoming.ownership.abandon();
  }

  async #handle(tracingOptions: MessageContext["tracingOptions"]): Promise<void> {
    const { handler, settings, dropAll } = this.#place;
    const { payload } = this.#incoming;
    const timer = this.#startTimer(settings.maxProcessingTimeInMs);
    let off: (() => void) | undefined;
    try {
      const handling = Promise.resolve(handler(payload, this.#context(tracingOptions)));
      // A handler that does not stop when told to is left alone; what it still returns concerns nobody.
      const dropped = new Promise<void>((resolve) => (off = onAbort(dropAll, resolve)));
      await Promise.race([handling, dropped]);
    } finally {
      clearTimeout(timer);
      off?.();
    }
  }

  #listenTo(emit: Emit): Emit {
    return (event, ...args) => {
      if (event !== "error") this.#outcome = event;
      emit(event, ...args);
    };
  }

  #startTimer(afterInMs: number): ReturnType<typeof setTimeout> | undefined {
    if (!Number.isFinite(afterInMs)) return undefined;
    return setTimeout(() => {
      this.#controller.abort(
        new DeadlineError(`the handler took longer than ${afterInMs} ms; the message is kept for it no longer`, { elapsedInMs: afterInMs }),
      );
      this.#incoming.ownership.letRunOut();
      this.#claimKeeper?.letRunOut();
    }, afterInMs);
  }

  #context(tracingOptions: MessageContext["tracingOptions"]): MessageContext {
    const incoming = this.#incoming;
    return {
      ...incoming.info,
      signal: this.#controller.signal,
      lastCheckpoint: incoming.checkpoint,
      tracingOptions,
      extend: ({ seconds = this.#place.settings.visibilityTimeoutInSeconds } = {}) => incoming.ownership.extend(seconds),
      retry: ({ delayInMs } = {}) => {
        this.#wish = { kind: "retry", delayInMs };
      },
      poison: (reason) => {
        this.#wish = { kind: "poison", reason };
      },
      checkpoint: (data) => incoming.setCheckpoint(data),
      commit: async (partitionKey, actions) => {
        const inbox: Inbox | undefined = this.#place.settings.inbox;
        if (inbox?.mode !== "commit" || !inbox.commit) throw new TypeError('context.commit needs an inbox with the mode "commit"');
        if (this.#committed) throw new TypeError("context.commit was called before: all that belongs to a message goes into one commit");
        // Late, it would be recognised anyway; but nobody would wait for it.
        if (incoming.ownership.signal.aborted) throw incoming.ownership.signal.reason;
        this.#commits++;
        this.#committed = await inbox.commit(incoming.delivery, this.#commits, partitionKey, actions, {
          tracingOptions,
          abortSignal: this.#place.dropAll,
        });
        return this.#committed;
      },
    };
  }

  async #finish(durationInMs: number): Promise<void> {
    const { emit } = this.#place;
    const { info, ownership } = this.#incoming;
    if (this.#claim && !(await this.#complete(this.#claim))) {
      const { signal } = this.#controller;
      emit("lost", { ...info, error: signal.aborted ? signal.reason : this.#claimLost(undefined) });
      return;
    }
    const off = onAbort(this.#place.dropAll, () => ownership.abandon());
    const farewell = await ownership.delete();
    off();
    const recorded = this.#claim !== undefined || this.#committed !== undefined;
    if (farewell === "lost" && !recorded) emit("lost", { ...info, error: ownership.signal.reason as unknown });
    else if (this.#committed === "duplicate") emit("duplicate", info);
    else emit("completed", { ...info, durationInMs });
  }

  /** Tries as long as the message is ours: an inbox that is out must not turn work that is done into work to do. */
  async #complete(claim: InboxClaim): Promise<boolean> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await claim.complete();
      } catch (error) {
        this.#place.emit("error", error);
        if (this.#incoming.ownership.remainingInMs <= 0 || this.#place.dropAll.aborted) return false;
        await delay(fullJitter(attempt, 100, 5_000), this.#place.dropAll).catch(() => undefined);
      }
    }
  }

  async #again(delayInMs: number, error: unknown): Promise<void> {
    const { emit } = this.#place;
    const { info, ownership } = this.#incoming;
    const farewell = await ownership.release(Math.min(7 * 86_400, Math.ceil(delayInMs / 1_000)));
    if (farewell === "lost") emit("lost", { ...info, error: ownership.signal.reason as unknown });
    else emit("retry", { ...info, delayInMs, error });
  }

  async #poison(reason: string, error: unknown): Promise<void> {
    const put = await putAside(this.#place, this.#incoming, reason, error);
    // A redrive brings the key back as another message, which should not have to wait for the claim to run out.
    if (put) await this.#claim?.release().catch((failed: unknown) => this.#place.emit("error", failed));
  }

  #claimLost(cause: unknown): MessageLostError {
    const { messageId, key } = this.#incoming.info;
    return new MessageLostError(`the inbox record of ${JSON.stringify(key)} is another consumer's now, or may be any moment; stop working on it`, {
      messageId,
      reason: "claim",
      cause,
    });
  }
}
