import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, AdapterRequest } from "../clients/call.js";
import { isAborted, RequestTimeoutError } from "../core/deadline.js";
import { observed } from "../core/pending-call.js";
import { isConflict, isNotFound, isParentNotFound, isTransient, isUnauthorized } from "../core/storage-errors.js";
import { checkOptions, isMisuse } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import type { CommitMessageContext, CommitOptions, CommitTransaction, CommitTransactionOptions } from "./context.js";
import { HandlerTransaction } from "./handler-transaction.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { CommitAttempt, CommitInbox, CommitResult } from "./inbox/commit-inbox.js";
import { DamagedRecordError } from "./inbox/commit-once.js";
import type { InboxCommitResult } from "./inbox/commit-once.js";
import type { InboxDelivery } from "./inbox/inbox.js";
import type { StoredMessage } from "./inbox/stored-outgoing.js";
import { checkOutgoing, outgoingKeyPrefix, prepareOutgoing, sendOutgoing } from "./outgoing.js";
import type { OutgoingQueues } from "./outgoing.js";

/**
 * What a failed commit says:
 * - `infrastructure`: the table cannot be used, its response was lost, or a queue to send to cannot be used. Nothing about the message.
 * - `conflict`: another writer has changed the same entities. The next attempt reads them again.
 * - `mismatch`: the key was committed for another payload. Every attempt would find the same.
 * - `failure`: anything else, above all actions that the service does not accept.
 */
export type CommitFailureKind = "infrastructure" | "conflict" | "mismatch" | "failure";

/** A commit that failed, or whose messages could not be sent, and was not followed by one that succeeded. */
export interface CommitFailure {
  readonly kind: CommitFailureKind;
  readonly error: unknown;
}

/** What the commits of one handler need of its delivery. */
export interface CommitScope {
  readonly delivery: InboxDelivery;
  readonly partitionKey: string;
  readonly tracingOptions: OperationTracingOptions;
  readonly abortSignals: readonly AbortSignalLike[];
  readonly queues: OutgoingQueues;
  /** @throws `MessageLostError` if the message is not held any more. */
  readonly assertHeld: () => void;
  /** A call came too late: its handler has not waited for it, and may not notice. */
  readonly onLateCall: (error: TypeError) => void;
}

const names: OptionNames<CommitOptions> = { send: 1, abortSignal: 1, tracingOptions: 1 };

/** What one call of a handler does: a commit, or a transaction. */
interface CommitCall<R extends InboxCommitResult> {
  readonly name: string;
  readonly abortSignal: AbortSignalLike | undefined;
  readonly tracingOptions: OperationTracingOptions | undefined;
  readonly commit: (attempt: CommitAttempt, keyPrefix: string, request: AdapterRequest) => Promise<R>;
  /** Shows clients for the queues that an earlier delivery has named. */
  readonly findQueues?: ((request: AdapterRequest) => Promise<void>) | undefined;
  readonly kindOf: (error: unknown) => CommitFailureKind;
}

/** The commits of one handler: one at a time, and none after one that succeeded. */
export class HandlerCommits {
  readonly #inbox: CommitInbox;
  readonly #scope: CommitScope;
  #calls = 0;
  #inFlight: Promise<unknown> | undefined;
  readonly #cutOff = new AbortController();
  #result: CommitResult | undefined;
  #failure: CommitFailure | undefined;
  #misuse: TypeError | undefined;
  #ended = false;
  #isUsable = false;

  constructor(inbox: CommitInbox, scope: CommitScope) {
    this.#inbox = inbox;
    this.#scope = scope;
  }

  /** `"duplicate"`: an earlier delivery has committed. */
  get result(): CommitResult | undefined {
    return this.#result;
  }

  get failure(): CommitFailure | undefined {
    return this.#failure;
  }

  /** The table has responded, and what was to be sent is sent: whatever failed before works again. */
  get isUsable(): boolean {
    const kind = this.#failure?.kind;
    return kind === "conflict" || kind === "mismatch" || (kind === undefined && this.#isUsable);
  }

  readonly commit: CommitMessageContext["commit"] = (actions, options = {}) => {
    const { queues } = this.#scope;
    const committing = async (): Promise<CommitResult> => {
      checkOptions("commit", options, names);
      const { send = [], abortSignal, tracingOptions } = options;
      const given: unknown = send;
      if (!Array.isArray(given)) throw new TypeError("commit: send must be an array of messages");
      const { result } = await this.#once({
        name: "commit",
        abortSignal,
        tracingOptions,
        commit: (attempt, keyPrefix, request) => {
          const messages = send.map((message, position) => prepareOutgoing("commit", message, keyPrefix, position));
          queues.learn(messages);
          return this.#inbox.commit(attempt, actions, checkOutgoing("commit", messages), request);
        },
        kindOf: kindOfCommit,
      });
      return result;
    };
    return observed(committing());
  };

  readonly transaction: CommitMessageContext["transaction"] = <R>(fn: (tx: CommitTransaction) => Promise<R> | R, options: CommitTransactionOptions = {}) => {
    const transacting = async (): Promise<{ outcome: CommitResult; value: R | undefined }> => {
      if (typeof fn !== "function") throw new TypeError("transaction: fn must be a function");
      const transaction = new HandlerTransaction(fn, this.#scope.queues);
      const { result, value } = await this.#once({
        name: "transaction",
        abortSignal: options.abortSignal,
        tracingOptions: options.tracingOptions,
        commit: (attempt, keyPrefix, request) => this.#inbox.transact(attempt, (tx) => transaction.run(tx, keyPrefix), options, request),
        findQueues: (request) => this.#inbox.tryOut(this.#scope.partitionKey, (tx) => transaction.run(tx, ""), request),
        kindOf: (error) => transaction.kindOf(error) ?? kindOfTransaction(error),
      });
      return { outcome: result, value: value as R | undefined };
    };
    return observed(transacting());
  };

  /**
   * Waits for a commit that the handler has not awaited, and returns why it failed. Also returns the error of a second commit, whose
   * actions are not written, and of messages that were not sent: the handler may not have noticed either.
   * @param returned - Whether the handler has returned: otherwise the next delivery does what is left.
   */
  async end(returned: boolean): Promise<unknown> {
    this.#ended = true;
    const failed = await this.#inFlight?.then(() => undefined, (error: unknown) => error);
    if (returned && !this.#result) await this.#sendForEarlier();
    return failed ?? this.#misuse ?? (this.#isUnsent ? this.#failure?.error : undefined);
  }

  /** The delivery is over: no request of an abandoned handler may stay behind. Of a commit that is cut off, the next delivery finds the outcome. */
  cutOff(): void {
    if (this.#inFlight) this.#cutOff.abort();
  }

  /** Committed, but what belongs to it was not sent: the message must not be deleted. */
  get #isUnsent(): boolean {
    return this.#result !== undefined && this.#failure !== undefined;
  }

  async #once<R extends InboxCommitResult>(call: CommitCall<R>): Promise<R> {
    const { delivery, partitionKey, assertHeld, onLateCall } = this.#scope;
    // Its message is about to be deleted, or released: nothing would send what is committed with it.
    if (this.#ended) {
      const error = new TypeError(`${call.name}: the handler has ended before, so nothing was written. It must wait for all that it begins.`);
      onLateCall(error);
      throw error;
    }
    if (this.#result || this.#inFlight) {
      throw (this.#misuse = new TypeError(`${call.name}: the handler has committed before. All that belongs to a message goes into one commit or transaction.`));
    }
    // A late commit would be recognised as a duplicate anyway, but no caller would wait for it.
    assertHeld();
    const attempt = { delivery, partitionKey, call: ++this.#calls };
    const committing = this.#request(call, async (request) => call.commit(attempt, await outgoingKeyPrefix(delivery.queueUrl, delivery.idempotencyKey), request));
    const sending = committing.then((result) => {
      this.#result = result.result;
      this.#failure = undefined;
      this.#isUsable = true;
      return this.#send(call, result.outgoing);
    });
    this.#inFlight = sending;
    try {
      await sending;
      return await committing;
    } catch (error) {
      // The handler itself has cancelled it.
      this.#failure = { kind: isAborted(call.abortSignal) ? "failure" : call.kindOf(error), error };
      throw error;
    } finally {
      this.#inFlight = undefined;
    }
  }

  /** Never rejects: the effect is committed. If it fails, the delivery fails when the handler has ended, and the next one sends again. */
  async #send<R extends InboxCommitResult>(call: CommitCall<R>, outgoing: readonly StoredMessage[]): Promise<void> {
    if (outgoing.length === 0) return;
    const { queues } = this.#scope;
    try {
      await this.#request(call, async (request) => {
        if (!queues.knowsAll(outgoing)) await call.findQueues?.(request);
        await sendOutgoing(call.name, outgoing, queues, request);
      });
    } catch (error) {
      this.#failure = { kind: kindOfSend(error), error };
    }
  }

  /**
   * The handler has found its effect without a commit, or has ignored that the outcome of its commit is unknown, for example: what may be
   * committed must be sent all the same. Also by the first delivery of a message: another one with its key may have committed, before it
   * was moved to the poison queue and redriven.
   */
  async #sendForEarlier(): Promise<void> {
    const { delivery, partitionKey } = this.#scope;
    const call = { name: "commit", abortSignal: undefined, tracingOptions: undefined };
    try {
      await this.#request(call, async (request) => {
        const outgoing = await this.#inbox.outgoing({ delivery, partitionKey, call: 0 }, request);
        await sendOutgoing(call.name, outgoing, this.#scope.queues, request);
      });
      this.#isUsable = true;
    } catch (error) {
      this.#result ??= "duplicate";
      this.#failure = { kind: kindOfSend(error), error };
    }
  }

  #request<R>(call: Pick<CommitCall<never>, "abortSignal" | "tracingOptions">, run: (request: AdapterRequest) => Promise<R>): Promise<R> {
    const { tracingOptions, abortSignals } = this.#scope;
    return callInbox(run, { tracingOptions: call.tracingOptions ?? tracingOptions, abortSignals: [this.#cutOff.signal, ...abortSignals, call.abortSignal] });
  }
}

function isInfrastructure(error: unknown): boolean {
  if (isConcurrencyError(error, "TARGET_NOT_FOUND")) return isParentNotFound(error.cause);
  if (error instanceof DamagedRecordError) return false;
  return (
    isConcurrencyError(error, "COMMIT_UNKNOWN") || isUnauthorized(error) || isParentNotFound(error) || isTransient(error) || error instanceof RequestTimeoutError
  );
}

function kindOfCommit(error: unknown): CommitFailureKind {
  if (isConcurrencyError(error, "IDEMPOTENCY_MISMATCH")) return "mismatch";
  if (isInfrastructure(error)) return "infrastructure";
  return isConflict(error) || isNotFound(error) ? "conflict" : "failure";
}

/** Unlike a commit, it reads before it writes: a missing entity is what the function has to expect. */
function kindOfTransaction(error: unknown): CommitFailureKind {
  if (isConcurrencyError(error, "IDEMPOTENCY_MISMATCH")) return "mismatch";
  if (isInfrastructure(error) || isConcurrencyError(error, "OPERATION_TIMEOUT")) return "infrastructure";
  return isConcurrencyError(error, "CONFLICT") ? "conflict" : "failure";
}

/** The effect is committed, so the message must not end in the poison queue because another queue rejects what is to be sent. */
function kindOfSend(error: unknown): CommitFailureKind {
  return isInfrastructure(error) || !(error instanceof DamagedRecordError || isMisuse(error)) ? "infrastructure" : "failure";
}
