import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import { linkSignals, onAbort, startTimer } from "../core/deadline.js";
import { startStopwatch } from "../core/deadline.js";
import { describeSpan, failSpan, inSpan, redactUrl } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, OperationTimeoutError, MessageLostError } from "../errors.js";
import { ClaimLease } from "./claim-lease.js";
import type { CommitMessageContext, ConsumerContext, Emit, MessageContext } from "./context.js";
import { deadLetter } from "./dead-letter.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { CommitResult } from "./inbox/commit-inbox.js";
import type { InboxClaim } from "./inbox/inbox.js";
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

/** The longest time for which the service hides a message. */
const maxDelayInMs = 7 * 86_400_000;

const commitNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };

/** What the handler has requested for its message. */
type HandlerRequest = { readonly kind: "retry"; readonly delayInMs: number | undefined } | { readonly kind: "poison"; readonly reason: string };

class Delivery<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #message: ReceivedMessage<T>;
  readonly #claim: ClaimLease | undefined;
  readonly #controller: AbortController;
  readonly #unlink: () => void;
  #request: HandlerRequest | undefined;
  #committed: CommitResult | undefined;
  #commits = 0;
  /** The last event that is not an error: how the delivery ended. */
  #outcome: string | undefined;

  constructor(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, claim: InboxClaim | undefined) {
    this.#consumer = { ...consumer, emit: this.#recordOutcome(consumer.emit) };
    this.#message = message;
    const { controller, unlink } = linkSignals(message.lease.signal, consumer.stopHandlers);
    this.#controller = controller;
    this.#unlink = unlink;
    this.#claim =
      claim &&
      new ClaimLease(claim, {
        clock: message.clock,
        claimDurationInMs: message.delivery.claimDurationInMs,
        dropAll: consumer.dropAll,
        onLost: (error) => this.#controller.abort(this.#claimLost(error)),
      });
  }

  run(): Promise<void> {
    const { info, lease, waitedInMs: waitInMs } = this.#message;
    const { messageId, attempt } = info;
    const details = { targetKind: "queue", url: this.#consumer.queue.url, messageId, attempt, waitInMs };
    return inSpan("QueueConsumer.handle", {}, async (tracingOptions, span) => {
      lease.tracingOptions = tracingOptions;
      if (this.#claim) this.#claim.tracingOptions = tracingOptions;
      await this.#run(tracingOptions ?? {}, span);
      describeSpan(span, { outcome: this.#outcome, requests: lease.requests });
    }, details, "consumer");
  }

  async #run(tracingOptions: OperationTracingOptions, span: CallSpan): Promise<void> {
    const { emit, settings, stopHandlers } = this.#consumer;
    const { info } = this.#message;
    if (info.attempt > settings.maxAttempts) return this.#poison(`given up after ${settings.maxAttempts} attempts`, undefined);
    // The inbox may have taken so long that the claim has expired since: then another message with the key may be processed.
    this.#claim?.isHeld();
    const elapsedInMs = startStopwatch();
    let error: unknown;
    try {
      if (!this.#controller.signal.aborted) await this.#handle(tracingOptions);
    } catch (thrown) {
      error = thrown ?? new Error("The handler rejected without a reason");
      failSpan(span, error);
    }
    if (this.#committed) return this.#finish(elapsedInMs());
    const { signal } = this.#controller;
    if (signal.aborted) {
      if (isConcurrencyError(signal.reason, "MESSAGE_LOST")) {
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
    this.#claim?.end();
    this.#message.lease.abandon();
  }

  async #handle(tracingOptions: OperationTracingOptions): Promise<void> {
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
    return (event, detail) => {
      if (event !== "error") this.#outcome = event;
      emit(event, detail);
    };
  }

  #startTimer(afterInMs: number): () => void {
    return startTimer(afterInMs, () => {
      this.#controller.abort(
        createError(OperationTimeoutError, `The handler took longer than maxProcessingTimeInMs (${afterInMs} ms). Its message is not renewed any more.`, { url: redactUrl(this.#consumer.queue.url), elapsedInMs: afterInMs }),
      );
      this.#message.lease.letExpire();
      this.#claim?.letExpire();
    });
  }

  #context(tracingOptions: OperationTracingOptions): MessageContext | CommitMessageContext {
    const message = this.#message;
    const context: MessageContext = {
      ...message.info,
      signal: this.#controller.signal,
      lastCheckpoint: message.checkpoint,
      tracingOptions,
      extend: async (options = {}) => {
        checkOptions("extend", options, { durationInMs: 1 });
        const { durationInMs = this.#consumer.settings.visibilityTimeoutInSeconds * 1_000 } = options;
        await message.lease.extend(Math.ceil(checkNumber("durationInMs", durationInMs, { min: 0, max: maxDelayInMs }) / 1_000));
      },
      retry: (options = {}) => {
        checkOptions("retry", options, { delayInMs: 1 });
        const { delayInMs } = options;
        if (delayInMs !== undefined) checkNumber("delayInMs", delayInMs, { min: 0 });
        this.#request = { kind: "retry", delayInMs };
      },
      poison: (reason) => {
        if (typeof reason !== "string") throw new TypeError("poison: the reason must be a string");
        this.#request = { kind: "poison", reason };
      },
      checkpoint: (data) => message.setCheckpoint(data),
    };
    const { commits } = this.#consumer.settings;
    if (!commits || message.partitionKey === undefined) return context;
    const { partitionKey } = message;
    const commit: CommitMessageContext["commit"] = async (actions, options = {}) => {
      checkOptions("commit", options, commitNames);
      if (this.#committed) throw new TypeError("commit: it was called before. All that belongs to a message goes into one commit.");
      // A late commit would be recognised as a duplicate anyway, but no caller would wait for it.
      if (message.lease.signal.aborted) throw message.lease.signal.reason;
      const call = ++this.#commits;
      const limits = { tracingOptions: options.tracingOptions ?? tracingOptions, abortSignals: [this.#consumer.dropAll, options.abortSignal] };
      const result = await callInbox((request) => commits.inbox.commit(message.delivery, call, partitionKey, actions, request), limits);
      return this.#recordCommit(result);
    };
    return { ...context, partitionKey, commit } satisfies CommitMessageContext;
  }

  /** Of two calls at the same time one is a duplicate of the other. */
  #recordCommit(result: CommitResult): CommitResult {
    if (this.#committed !== "committed") this.#committed = result;
    return result;
  }

  async #finish(durationInMs: number): Promise<void> {
    const { emit } = this.#consumer;
    const { info, lease } = this.#message;
    // Work that is done must not be repeated because the inbox cannot be reached: it is retried as long as the message is held.
    if (this.#claim && !(await this.#claim.complete(() => lease.remainingInMs, (error) => emit("error", error)))) {
      const { signal } = this.#controller;
      emit("lost", { ...info, error: isConcurrencyError(signal.reason, "MESSAGE_LOST") ? signal.reason : this.#claimLost(undefined) });
      return;
    }
    const off = onAbort(this.#consumer.dropAll, () => lease.abandon());
    const settled = await lease.delete();
    off();
    const recorded = this.#claim !== undefined || this.#committed !== undefined;
    if (settled === "lost" && !recorded) emit("lost", { ...info, error: lease.lostError });
    else if (this.#committed === "duplicate") emit("duplicate", info);
    else emit("completed", { ...info, durationInMs });
  }

  async #retry(delayInMs: number, error: unknown): Promise<void> {
    const { emit } = this.#consumer;
    const { info, lease } = this.#message;
    const settled = await lease.release(Math.ceil(Math.min(maxDelayInMs, delayInMs) / 1_000));
    if (settled === "lost") emit("lost", { ...info, error: lease.lostError });
    else emit("retried", { ...info, delayInMs, error });
  }

  async #poison(reason: string, error: unknown): Promise<void> {
    const sent = await deadLetter(this.#consumer, this.#message, reason, error);
    // A redrive sends the key again as another message, which should not have to wait until the claim expires.
    if (sent) await this.#claim?.release(true).catch((failed: unknown) => this.#consumer.emit("error", failed));
  }

  #claimLost(cause: unknown): MessageLostError {
    const { messageId, idempotencyKey } = this.#message.info;
    return createError(MessageLostError, `The inbox claim of ${JSON.stringify(idempotencyKey)} was lost: another consumer may handle the key now. Stop working on it.`, {
      url: redactUrl(this.#consumer.queue.url),
      messageId,
      reason: "claim",
      cause,
    });
  }
}
