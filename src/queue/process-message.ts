import type { OperationTracingOptions } from "@azure/core-tracing";
import { clockDriven, linkSignals, onAbort, startStopwatch, startTimer } from "../core/deadline.js";
import { recorder } from "../core/measure.js";
import { observed } from "../core/pending-call.js";
import { continueTrace } from "../core/trace-context.js";
import { describeSpan, failSpan, inSpan, redactUrl } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import { createError, isConcurrencyError, OperationTimeoutError, MessageLostError } from "../errors.js";
import { ClaimLease } from "./claim-lease.js";
import type { CommitMessageContext, ConsumerContext, Emit, MessageContext } from "./context.js";
import { maxDelayInMs } from "./envelope.js";
import { HandlerCommits } from "./handler-commits.js";
import type { InboxClaim, InboxClaimResult, InboxDelivery } from "./inbox/inbox.js";
import type { ReceivedMessage } from "./received-message.js";
import { deleteStoredPayload, failMessage, giveBackMessage, giveBackUncharged, poisonMessage, retryConflict } from "./settle.js";

/**
 * Processes one delivery of a message: runs the handler, and settles the message according to its outcome.
 *
 * | handler                                 | message                                                                        |
 * |-----------------------------------------|--------------------------------------------------------------------------------|
 * | returned                                | inbox record done, then deleted: a crash in between is a duplicate, not a loss |
 * | threw, or requested a retry             | a failure: visible again after the delay; poison after the last attempt        |
 * | the same, after its commit failed       | by the kind of that failure: the table cannot be used, or a conflict: no failure |
 * | requested poison                        | sent to the poison queue, then deleted                                         |
 * | ended after the message was lost        | nothing: another consumer may have it                                          |
 * | ended after `stop()` aborted it         | visible again at once, no failure                                              |
 * | did not end after the abort             | abandoned: as if it had ended                                                  |
 *
 * After an abort, a return does not count as done, as handlers return early when they see it. A handler that has committed is no
 * exception: what it does after the commit may be missing. The next delivery finds the commit done, and goes on.
 */
export async function processMessage<T>(
  consumer: ConsumerContext<T>,
  message: ReceivedMessage<T>,
  claim: InboxClaim | undefined,
  takeSuccessor: () => Successor | undefined = () => undefined,
): Promise<void> {
  const delivery = new Delivery(consumer, message, claim, takeSuccessor);
  try {
    await delivery.run();
    await delivery.freeGroup();
  } finally {
    delivery.end();
  }
}

/** A message of the same group that may start when this one is completed. */
export interface Successor {
  readonly delivery: InboxDelivery;
  /** Lets it go on, with what the inbox has returned for it. Undefined: nothing. */
  proceed(result: InboxClaimResult | undefined): void;
}

/** How long a handler may take to end after its signal has aborted. Then it is abandoned. */
const graceInMs = 5_000;

/** What the handler has requested for its message. */
type HandlerRequest = { readonly kind: "retry"; readonly delayInMs: number | undefined } | { readonly kind: "poison"; readonly reason: string };

class Delivery<T> {
  readonly #consumer: ConsumerContext<T>;
  readonly #message: ReceivedMessage<T>;
  readonly #claim: ClaimLease | undefined;
  readonly #controller: AbortController;
  readonly #unlink: () => void;
  readonly #takeSuccessor: () => Successor | undefined;
  #commits: HandlerCommits | undefined;
  #request: HandlerRequest | undefined;
  /** The last event that is not an error: how the delivery ended. */
  #outcome: string | undefined;

  constructor(consumer: ConsumerContext<T>, message: ReceivedMessage<T>, claim: InboxClaim | undefined, takeSuccessor: () => Successor | undefined) {
    this.#takeSuccessor = takeSuccessor;
    this.#consumer = { ...consumer, emit: this.#recordOutcome(consumer.emit) };
    this.#message = message;
    const { controller, unlink } = linkSignals(message.lease.signal, consumer.stopHandlers);
    this.#controller = controller;
    this.#unlink = unlink;
    this.#claim =
      claim &&
      new ClaimLease(claim, {
        clock: message.claimClock,
        claimDurationInMs: message.delivery.claimDurationInMs,
        dropAll: consumer.dropAll,
        onLost: (error) => this.#controller.abort(this.#claimLost(error)),
      });
  }

  run(): Promise<void> {
    const { info, lease, waitedInMs: waitInMs } = this.#message;
    const { messageId, attempt } = info;
    const details = { targetKind: "queue", url: this.#consumer.queue.url, messageId, attempt, waitInMs };
    // One message, one handler, one parent: that of the producer.
    const traceparent = this.#message.content?.traceparent;
    const { tracingOptions: producer, spanLinks } = traceparent === undefined ? {} : continueTrace(traceparent);
    return inSpan("QueueConsumer.handle", { tracingOptions: producer }, async (tracingOptions, span) => {
      lease.tracingOptions = tracingOptions;
      if (this.#claim) this.#claim.tracingOptions = tracingOptions;
      await this.#run(tracingOptions ?? {}, span);
      describeSpan(span, { outcome: this.#outcome, requests: lease.requests });
    }, details, { spanKind: "consumer", ...(spanLinks && { spanLinks }) });
  }

  async #run(tracingOptions: OperationTracingOptions, span: CallSpan): Promise<void> {
    const { pace } = this.#consumer;
    const message = this.#message;
    const unhandled = this.#unhandled();
    if (unhandled) {
      pace.handlerNotRun();
      return this.#poison(unhandled.reason, unhandled.error);
    }
    // The inbox may have taken so long that the claim has expired since: then another message with the key may be processed.
    this.#isHeld();
    const elapsedInMs = startStopwatch();
    const failed = this.#controller.signal.aborted ? undefined : await this.#handle(tracingOptions, elapsedInMs);
    if (failed) failSpan(span, failed.error);
    const commitFailure = this.#commits?.failure;
    if (this.#commits?.isUsable) pace.infrastructureWorks();
    this.#isHeld();
    const { signal } = this.#controller;
    if (signal.aborted && !isConcurrencyError(signal.reason, "OPERATION_TIMEOUT")) return this.#endAborted(signal.reason);
    if (this.#request?.kind === "poison") return this.#poison(this.#request.reason, failed?.error);
    const error: unknown = signal.aborted ? signal.reason : failed?.error;
    if (failed && commitFailure && commitFailure.kind !== "failure") {
      switch (commitFailure.kind) {
        case "infrastructure":
          return giveBackUncharged(this.#consumer, message, pace.infrastructureFailed(commitFailure.error), error);
        case "conflict":
          return retryConflict(this.#consumer, message, error);
        case "mismatch":
          return this.#poison("its idempotency key was used before, for another payload", commitFailure.error);
      }
    }
    if (!signal.aborted && !failed && !this.#request) {
      pace.handlerSucceeded();
      return this.#finish(elapsedInMs());
    }
    if (error !== undefined) pace.handlerFailed(error);
    return failMessage(this.#consumer, message, { error, delayInMs: this.#request?.delayInMs, claim: this.#claim });
  }

  /** Why no handler may have the message: it is moved to the poison queue. */
  #unhandled(): { readonly reason: string; readonly error: string | undefined } | undefined {
    const { poisonPending, deliveries, payloadMissing } = this.#message;
    if (poisonPending) return poisonPending;
    const because = (reason: string): { reason: string; error: undefined } => ({ reason, error: undefined });
    if (deliveries > this.#consumer.settings.maxDeliveries) return because(`delivered ${deliveries} times without an outcome (maxDeliveries)`);
    // Another message with this key and payload has completed, and its blob was deleted; but there is no record of it.
    return payloadMissing ? because("its payload is missing in the overflow container") : undefined;
  }

  /** The message is retried, or given back: others of its group need not wait for that, nor until the claim expires. */
  async freeGroup(): Promise<void> {
    const { dropAll, emit } = this.#consumer;
    if (this.#message.group === undefined || dropAll.aborted) return;
    await this.#claim?.releaseUnsettled().catch((notReleased: unknown) => {
      if (!dropAll.aborted) emit("error", notReleased);
    });
  }

  /** Removes all listeners and timers, and cuts off the requests in flight. */
  end(): void {
    this.#unlink();
    this.#claim?.end();
    this.#message.lease.abandon();
    this.#commits?.cutOff();
  }

  /** The message is lost, or the consumer stops. */
  async #endAborted(reason: unknown): Promise<void> {
    const { info } = this.#message;
    if (isConcurrencyError(reason, "MESSAGE_LOST")) this.#consumer.emit("lost", { ...info, error: reason });
    // The inbox record stays claimed: the next delivery of the same message takes it over at once.
    else await giveBackMessage(this.#consumer, this.#message, 0, reason);
  }

  /** Returns how the handler failed, if it did. */
  async #handle(tracingOptions: OperationTracingOptions, elapsedInMs: () => number): Promise<{ readonly error: unknown } | undefined> {
    const { handler, settings } = this.#consumer;
    const { payload, info } = this.#message;
    const stopTimer = this.#startTimer(settings.maxProcessingTimeInMs);
    const overdue = this.#overdue();
    try {
      const handling = this.#handling(() => handler(payload, this.#context(tracingOptions)));
      const failed = await Promise.race([handling, overdue.promise]);
      if (failed !== "overdue") {
        recorder?.countHandler(this.#consumer.queue.name, elapsedInMs(), failed);
        return failed;
      }
      this.#consumer.abandon(handling);
      this.#consumer.emit("abandoned", { ...info, durationInMs: elapsedInMs() });
      const abandoned = { error: this.#controller.signal.reason as unknown };
      recorder?.countHandler(this.#consumer.queue.name, elapsedInMs(), abandoned);
      return abandoned;
    } finally {
      stopTimer();
      overdue.stop();
    }
  }

  /** Ends when the handler and all that it has begun have ended. Never rejects. */
  async #handling(run: () => unknown): Promise<{ readonly error: unknown } | undefined> {
    let failed: { readonly error: unknown } | undefined;
    try {
      await run();
    } catch (thrown) {
      failed = { error: thrown ?? new Error("The handler rejected without a reason") };
    }
    const notAwaited = await this.#commits?.end(failed === undefined);
    return failed ?? (notAwaited === undefined ? undefined : { error: notAwaited });
  }

  /** A handler that does not end after the abort is no longer awaited, and its result is ignored. */
  #overdue(): { readonly promise: Promise<"overdue">; readonly stop: () => void } {
    const offs: (() => void)[] = [];
    const promise = new Promise<"overdue">((resolve) => {
      const end = (): void => resolve("overdue");
      offs.push(onAbort(this.#controller.signal, () => offs.push(startTimer(graceInMs, end))), onAbort(this.#consumer.dropAll, end));
    });
    return {
      promise,
      stop: () => {
        for (const off of offs) off();
      },
    };
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
        createError(OperationTimeoutError, `The handler took longer than maxProcessingTimeInMs (${afterInMs} ms). It should end now.`, { url: redactUrl(this.#consumer.queue.url), elapsedInMs: afterInMs }),
      );
    });
  }

  /** By the clock. A loss that is noticed here aborts the signal at once. */
  #isHeld(): boolean {
    const claimHeld = this.#claim?.isHeld() ?? true;
    return this.#message.lease.remainingInMs > 0 && claimHeld;
  }

  readonly #assertHeld = (): void => {
    if (this.#isHeld()) return;
    const { signal } = this.#controller;
    throw isConcurrencyError(signal.reason, "MESSAGE_LOST") ? signal.reason : this.#message.lease.lostError;
  };

  #context(tracingOptions: OperationTracingOptions): MessageContext | CommitMessageContext {
    const message = this.#message;
    const context: MessageContext = {
      ...message.info,
      signal: clockDriven(this.#controller.signal, () => this.#isHeld()),
      assertHeld: this.#assertHeld,
      lastCheckpoint: message.copyOfCheckpoint,
      tracingOptions,
      // Observed: a handler that does not await it, or calls it from a timer after its end, must not end the process.
      extend: (options) => observed(this.#extend(options)),
      retry: (options = {}) => {
        checkOptions("retry", options, { delayInMs: 1 });
        const { delayInMs } = options;
        if (delayInMs !== undefined && checkNumber("retry: delayInMs", delayInMs, { min: 0 }) > maxDelayInMs) {
          throw new RangeError(`retry: delayInMs must be ${maxDelayInMs} (7 days) at most, for which a queue can hide a message; got ${delayInMs}. Use poison() for a message that must not be retried.`);
        }
        this.#request = { kind: "retry", delayInMs };
      },
      poison: (reason) => {
        if (typeof reason !== "string") throw new TypeError("poison: the reason must be a string");
        this.#request = { kind: "poison", reason };
      },
      checkpoint: (data) => message.setCheckpoint(data),
    };
    const { commits } = this.#consumer.settings;
    const { partitionKey, delivery } = message;
    if (!commits || partitionKey === undefined) return context;
    this.#commits = new HandlerCommits(commits.inbox, {
      delivery,
      partitionKey,
      tracingOptions,
      abortSignals: [this.#consumer.dropAll],
      queues: this.#consumer.outgoingQueues,
      assertHeld: this.#assertHeld,
      onLateCall: (error) => this.#consumer.emit("error", error),
    });
    const { commit, transaction } = this.#commits;
    return { ...context, partitionKey, commit, transaction } satisfies CommitMessageContext;
  }

  async #extend(options: Parameters<MessageContext["extend"]>[0] = {}): Promise<void> {
    checkOptions("extend", options, { durationInMs: 1 });
    const { durationInMs = this.#consumer.settings.visibilityTimeoutInSeconds * 1_000 } = options;
    await this.#message.lease.extend(Math.ceil(checkNumber("durationInMs", durationInMs, { min: 0, max: maxDelayInMs }) / 1_000));
  }

  async #finish(durationInMs: number): Promise<void> {
    const { emit } = this.#consumer;
    const { info, lease } = this.#message;
    if (this.#claim && !(await this.#complete(this.#claim))) {
      const { signal } = this.#controller;
      emit("lost", { ...info, error: isConcurrencyError(signal.reason, "MESSAGE_LOST") ? signal.reason : this.#claimLost(undefined) });
      return;
    }
    const off = onAbort(this.#consumer.dropAll, () => lease.abandon());
    const settled = await lease.delete();
    off();
    const committed = this.#commits?.result;
    // Without a record, a message that could not be deleted is handled again, as if its handler had not run.
    const recorded = this.#claim !== undefined || committed !== undefined;
    if (settled !== "done" && !recorded) emit("lost", { ...info, error: lease.lostError });
    else if (committed === "duplicate") emit("duplicate", info);
    else emit("completed", { ...info, durationInMs });
    if (settled === "done" && this.#message.storedPayload) await deleteStoredPayload(this.#consumer, this.#message);
  }

  /** Work that is done must not be repeated because the inbox cannot be reached: it is retried as long as the message is held. */
  async #complete(claim: ClaimLease): Promise<boolean> {
    const { emit } = this.#consumer;
    const { lease } = this.#message;
    const successor = this.#takeSuccessor();
    const completed = await claim.complete(() => lease.remainingInMs, (error) => emit("error", error), successor?.delivery);
    // Before this message is deleted: the inbox knows that it is completed.
    successor?.proceed(completed?.next);
    return completed !== undefined;
  }

  #poison(reason: string, error: unknown): Promise<void> {
    return poisonMessage(this.#consumer, this.#message, reason, error, this.#claim);
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
