import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { isAborted, RequestTimeoutError } from "../core/deadline.js";
import { isConflict, isNotFound, isParentNotFound, isTransient, isUnauthorized } from "../core/storage-errors.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import type { CommitMessageContext } from "./context.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { CommitInbox, CommitResult } from "./inbox/commit-inbox.js";
import type { InboxDelivery } from "./inbox/inbox.js";

/**
 * What a failed commit says:
 * - `infrastructure`: the table cannot be used, or its response was lost. Nothing about the message.
 * - `conflict`: another writer has changed the same entities. The next attempt reads them again.
 * - `mismatch`: the key was committed for another payload. Every attempt would find the same.
 * - `failure`: anything else, above all actions that the service does not accept.
 */
export type CommitFailureKind = "infrastructure" | "conflict" | "mismatch" | "failure";

/** A commit that failed, and was not followed by one that succeeded. */
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
  /** @throws `MessageLostError` if the message is not held any more. */
  readonly assertHeld: () => void;
}

const names: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };

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

  readonly commit: CommitMessageContext["commit"] = (actions, options = {}) => {
    const committing = this.#commit(actions, options);
    // A handler may not await it. Its failure is that of the delivery then, and must not end the process.
    committing.catch(() => undefined);
    return committing;
  };

  /**
   * Waits for a commit that the handler has not awaited, and returns why it failed. Also returns the error of a second commit: its
   * actions are not written, which the handler may not have noticed either.
   */
  async end(): Promise<unknown> {
    const failed = await this.#inFlight?.then(() => undefined, (error: unknown) => error);
    return failed ?? this.#misuse;
  }

  /** The delivery is over: no request of an abandoned handler may stay behind. Of a commit that is cut off, the next delivery finds the outcome. */
  cutOff(): void {
    if (this.#inFlight) this.#cutOff.abort();
  }

  async #commit(actions: Parameters<CommitMessageContext["commit"]>[0], options: CallOptions): Promise<CommitResult> {
    checkOptions("commit", options, names);
    const { delivery, partitionKey, tracingOptions, abortSignals, assertHeld } = this.#scope;
    if (this.#result || this.#inFlight) {
      throw (this.#misuse = new TypeError("commit: it was called before. All that belongs to a message goes into one commit."));
    }
    // A late commit would be recognised as a duplicate anyway, but no caller would wait for it.
    assertHeld();
    const call = ++this.#calls;
    const limits = { tracingOptions: options.tracingOptions ?? tracingOptions, abortSignals: [this.#cutOff.signal, ...abortSignals, options.abortSignal] };
    const committing = callInbox((request) => this.#inbox.commit(delivery, call, partitionKey, actions, request), limits);
    this.#inFlight = committing;
    try {
      this.#result = await committing;
      this.#failure = undefined;
      return this.#result;
    } catch (error) {
      // The handler itself has cancelled it.
      this.#failure = { kind: isAborted(options.abortSignal) ? "failure" : kindOf(error), error };
      throw error;
    } finally {
      this.#inFlight = undefined;
    }
  }
}

function kindOf(error: unknown): CommitFailureKind {
  if (isConcurrencyError(error, "IDEMPOTENCY_MISMATCH")) return "mismatch";
  if (isConcurrencyError(error, "COMMIT_UNKNOWN") || isUnauthorized(error) || isParentNotFound(error) || isTransient(error)) return "infrastructure";
  if (error instanceof RequestTimeoutError) return "infrastructure";
  return isConflict(error) || isNotFound(error) ? "conflict" : "failure";
}
