import { linkSignals, onAbort, startTimer } from "../core/deadline.js";
import { RenewalLoop } from "../core/renewal.js";
import { fullJitter, retry } from "../core/retry.js";
import { startStopwatch } from "../core/stopwatch.js";
import { describeSpan, failSpan, inSpan, redactUrl } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { createError, OperationTimeoutError, MessageLostError } from "../errors.js";
import type { ConsumerContext, Emit, MessageContext } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import type { Inbox, InboxClaim } from "./inbox/inbox.js";
import { renewHalfway } from "./message-lease.js";
import type { ReceivedMessage } from "./received-message.js";

/**
 * Processes one delivery of a message: runs the handler, and settles the message according to its outcome.
 *
 * | handler                             | message                                                                        |
 * |-------------------------------------|--------------------------------------------------------------------------------|
 * | returned                            | inbox record done, then deleted: a crash in between is a duplicate, not a loss |
 * | threw, or requested a retry         | visible again after the delay; poison after the last attempt                   |
 * | requested poison                    | sent to the poison queue, then deleted                                         |
 * | ended after the message was lost    | nothing: another consumer may have it                                          |
 * | ended after `stop()` aborted it     | visible again at once                                                          |
 * | had committed                       | deleted, whatever else happened                                                |
 *
 * After an abort, a return does not count as done, as handlers return early when they see it.
 */
export async function processMessage<T>(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, claim: InboxClaim | undefined): Promise<void> {
  const delivery = new Delivery(consumer, message, claim);
  try {
    await delivery.run();
  } finally {
    delivery.end();
  }
}

/** What the handler has requested for its message. */
type HandlerRequest = { readonly kind: "retry"; readonly delayInMs: number | undefined } | { readonly kind: "poison"; readonly reason: string };

class Delivery<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #message: ReceivedMessage<T>;
  readonly #claim: InboxClaim | undefined;
  readonly #claimLoop: RenewalLoop | undefined;
  readonly #controller: AbortController;
  readonly #unlink: () => void;
  #request: HandlerRequest | undefined;
  #committed: "committed" | "duplicate" | undefined;
  #commits = 0;
  /** The last event that is not an error: how the delivery ended. */
  #outcome: string | undefined;

  constructor(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, claim: InboxClaim | undefined) {
    this.#consumer = { ...consumer, emit: this.#recordOutcome(consumer.emit) };
    this.#message = message;
    this.#claim = claim;
    const { controller, unlink } = linkSignals(message.lease.signal, consumer.stopHandlers);
    this.#controller = controller;
    this.#unlink = unlink;
    if (!claim) return;
    this.#claimLoop = new RenewalLoop(
      { renew: () => claim.extend(), onLost: (error) => this.#controller.abort(this.#claimLost(error)) },
      claim.clock,
      claim.claimDurationInMs,
      renewHalfway,
    );
  }

  run(): Promise<void> {
    const { info, lease, delivery } = this.#message;
    const { messageId, attempt, insertedOn } = info;
    const waitInMs = Math.max(0, Math.round(delivery.serviceTime() - insertedOn.getTime()));
    const details = { targetKind: "queue", url: this.#consumer.queue.url, messageId, attempt, waitInMs };
    return inSpan("QueueConsumer.handle", {}, async (tracingOptions, span) => {
      lease.tracingOptions = tracingOptions;
      await this.#run(tracingOptions, span);
      describeSpan(span, { outcome: this.#outcome, requests: lease.requests });
    }, details, "consumer");
  }

  async #run(tracingOptions: MessageContext["tracingOptions"], span: CallSpan): Promise<void> {
    const { emit, settings, stopHandlers } = this.#consumer;
    const { info } = this.#message;
    if (info.attempt > settings.maxAttempts) return this.#poison(`given up after ${settings.maxAttempts} attempts`, undefined);
    // The inbox may have taken so long that the claim has expired since: then another message with the key may be processed.
    this.#claimLoop?.isHeld();
    const elapsedInMs = startStopwatch();
    let error: unknown;
    try {
      if (!this.#controller.signal.aborted) await this.#handle(tracingOptions);
    } catch (thrown) {
      error = thrown ?? new Error("the handler rejected without a reason");
      failSpan(span, error);
    }
    if (this.#committed) return this.#finish(elapsedInMs());
    const { signal } = this.#controller;
    if (signal.aborted) {
      if (signal.reason instanceof MessageLostError) {
        emit("lost", { ...info, error: signal.reason });
        return;
      }
      // The inbox record stays claimed: the next delivery of the same message takes it over at once.
      if (stopHandlers.aborted) return this.#retry(0, signal.reason);
      error = signal.reason;
    }
    if (this.#request?.kind === "poison") return this.#poison(this.#request.reason, error);
    if (error === undefined && !this.#request) return this.#finish(elapsedInMs());
    if (info.attempt >= settings.maxAttempts) return this.#poison(`failed ${info.attempt} times`, error);
    return this.#retry(this.#request?.delayInMs ?? settings.retryDelay(info.attempt, error), error);
  }

  /** Removes all listeners and timers, and cuts off the requests in flight. */
  end(): void {
    this.#unlink();
    this.#claimLoop?.stop();
    this.#claim?.abandon();
    this.#message.lease.abandon();
  }

  async #handle(tracingOptions: MessageContext["tracingOptions"]): Promise<void> {
    const { handler, settings, dropAll } = this.#consumer;
    const { payload } = this.#message;
    const stopTimer = this.#startTimer(settings.maxProcessingTimeInMs);
    let off: (() => void) | undefined;
    try {
      const handling = Promise.resolve(handler(payload, this.#context(tracingOptions)));
      // A handler that does not end after the abort is no longer awaited, and its result is ignored.
      const dropped = new Promise<void>((resolve) => (off = onAbort(dropAll, resolve)));
      await Promise.race([handling, dropped]);
    } finally {
      stopTimer();
      off?.();
    }
  }

  #recordOutcome(emit: Emit): Emit {
    return (event, ...args) => {
      if (event !== "error") this.#outcome = event;
      emit(event, ...args);
    };
  }

  #startTimer(afterInMs: number): () => void {
    return startTimer(afterInMs, () => {
      this.#controller.abort(
        createError(OperationTimeoutError, `the handler took longer than ${afterInMs} ms; the message is kept for it no longer`, { url: redactUrl(this.#consumer.queue.url), elapsedInMs: afterInMs }),
      );
      this.#message.lease.letExpire();
      this.#claimLoop?.letExpire();
    });
  }

  #context(tracingOptions: MessageContext["tracingOptions"]): MessageContext {
    const message = this.#message;
    return {
      ...message.info,
      signal: this.#controller.signal,
      lastCheckpoint: message.checkpoint,
      tracingOptions,
      extend: ({ seconds = this.#consumer.settings.visibilityTimeoutInSeconds } = {}) => message.lease.extend(seconds),
      retry: ({ delayInMs } = {}) => {
        this.#request = { kind: "retry", delayInMs };
      },
      poison: (reason) => {
        this.#request = { kind: "poison", reason };
      },
      checkpoint: (data) => message.setCheckpoint(data),
      commit: async (partitionKey, actions) => {
        const inbox: Inbox | undefined = this.#consumer.settings.inbox;
        if (inbox?.mode !== "commit" || !inbox.commit) throw new TypeError('context.commit needs an inbox with the mode "commit"');
        if (this.#committed) throw new TypeError("context.commit was called before: all that belongs to a message goes into one commit");
        // A late commit would be recognised as a duplicate anyway, but no caller would wait for it.
        if (message.lease.signal.aborted) throw message.lease.signal.reason;
        this.#commits++;
        this.#committed = await inbox.commit(message.delivery, this.#commits, partitionKey, actions, {
          tracingOptions,
          abortSignal: this.#consumer.dropAll,
        });
        return this.#committed;
      },
    };
  }

  async #finish(durationInMs: number): Promise<void> {
    const { emit } = this.#consumer;
    const { info, lease } = this.#message;
    if (this.#claim && !(await this.#complete(this.#claim))) {
      const { signal } = this.#controller;
      emit("lost", { ...info, error: signal.aborted ? signal.reason : this.#claimLost(undefined) });
      return;
    }
    const off = onAbort(this.#consumer.dropAll, () => lease.abandon());
    const settled = await lease.delete();
    off();
    const recorded = this.#claim !== undefined || this.#committed !== undefined;
    if (settled === "lost" && !recorded) emit("lost", { ...info, error: lease.signal.reason as unknown });
    else if (this.#committed === "duplicate") emit("duplicate", info);
    else emit("completed", { ...info, durationInMs });
  }

  /**
   * Retries as long as the message is held: work that is done must not be repeated because the inbox cannot be reached. False:
   * another consumer has taken over, or the time is over.
   */
  async #complete(claim: InboxClaim): Promise<boolean> {
    const { emit, dropAll } = this.#consumer;
    try {
      return await retry(() => claim.complete(), {
        maxAttempts: Infinity,
        onFailure: (error) => emit("error", error),
        shouldRetry: () => this.#message.lease.remainingInMs > 0,
        backoff: (attempt) => fullJitter(attempt - 1, 100, 5_000),
        abortSignal: dropAll,
      });
    } catch {
      return false;
    }
  }

  async #retry(delayInMs: number, error: unknown): Promise<void> {
    const { emit } = this.#consumer;
    const { info, lease } = this.#message;
    const settled = await lease.release(Math.min(7 * 86_400, Math.ceil(delayInMs / 1_000)));
    if (settled === "lost") emit("lost", { ...info, error: lease.signal.reason as unknown });
    else emit("retry", { ...info, delayInMs, error });
  }

  async #poison(reason: string, error: unknown): Promise<void> {
    const sent = await deadLetter(this.#consumer, this.#message, reason, error);
    // A redrive sends the key again as another message, which should not have to wait until the claim expires.
    if (sent) await this.#claim?.release().catch((failed: unknown) => this.#consumer.emit("error", failed));
  }

  #claimLost(cause: unknown): MessageLostError {
    const { messageId, key } = this.#message.info;
    return createError(MessageLostError, `the inbox record of ${JSON.stringify(key)} is another consumer's now, or may be any moment; stop working on it`, {
      url: redactUrl(this.#consumer.queue.url),
      messageId,
      reason: "claim",
      cause,
    });
  }
}
