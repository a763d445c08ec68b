import type { AppendBlobLike } from "../clients/blob.js";
import { CallQueue, CallQueues, credentialScopeOf } from "../core/call-queue.js";
import { jitter } from "../core/retry.js";
import { isBlockCountExceeded } from "../core/storage-errors.js";
import { beginTogether, redactUrl } from "../core/telemetry.js";
import { createError, LimitError, TargetNotFoundError } from "../errors.js";
import type { ConcurrencyErrorMap } from "../errors.js";
import { claimsName } from "../target/append-claims.js";
import { newWriteId } from "../target/journal.js";
import type { CallContext } from "../target/target.js";
import { appendBlock, claimEnd, isStoredAt } from "./append-block.js";
import type { AppendOutcome } from "./append-block.js";
import type { AppendCall } from "./append-call.js";
import { createAppendBlob, readAppendBlob } from "./append-state.js";
import type { AppendBlobState } from "./append-state.js";
import { batchSize, claimedCalls, planBlock, recordsOf } from "./block-plan.js";
import { findOperation, tokenOf } from "./claims.js";
import { Streak } from "./streak.js";

/** The maximum number of blocks of an append blob. */
const maxBlocks = 50_000;

/** The longest time for which another appender gets a chance, unless the own batches take longer. */
const maxYieldInMs = 100;

/** How often a blob is read that exists at one moment and does not at the next, or whose end another appender has claimed. */
const maxReads = 10;

const queues = new CallQueues<AppendQueue>();

/** The state of each blob after the last append through its client: saves a read. If it is outdated, it costs one request. */
const lastStates = new WeakMap<AppendBlobLike, AppendBlobState>();

/** Of each client, over the queues that its calls get one after the other. */
const streaks = new WeakMap<AppendBlobLike, Streak>();

/** Adds a call to the queue that appends all records of this process, under the same credentials, to the same blob. */
export function enqueueAppend(blob: AppendBlobLike, call: AppendCall): void {
  const { coalesce, leaseId, operationId } = call.settings;
  // An operation is found by its claim.
  const withClaims = !call.settings.uniqueRecords || operationId !== undefined;
  if (!coalesce) {
    new AppendQueue(blob, withClaims, leaseId, undefined).add(call);
    return;
  }
  if (call.isSettled()) return;
  const key = JSON.stringify([blob.url, withClaims, leaseId]);
  queues.get(credentialScopeOf(blob), key, (onIdle) => new AppendQueue(blob, withClaims, leaseId, onIdle)).add(call);
}

/**
 * The appends of this process to one blob. Each batch finds the end of the blob (unless it is known from the previous batch),
 * claims it, and appends the waiting records as one block.
 */
class AppendQueue extends CallQueue<AppendCall> {
  readonly #blob: AppendBlobLike;
  readonly #withClaims: boolean;
  readonly #leaseId: string | undefined;
  /** The end of the blob, if it is known. */
  #state: AppendBlobState | undefined;
  /** A state that was read after a conflict: another appender may have claimed its end. */
  #found: AppendBlobState | undefined;
  /**
   * Whether the service has confirmed a state to this queue. A state from `lastStates` is enough to try a write, but not to
   * reject a record.
   */
  #confirmed = false;
  readonly #streak: Streak;

  constructor(blob: AppendBlobLike, withClaims: boolean, leaseId: string | undefined, onIdle: (() => void) | undefined) {
    super(redactUrl(blob.url), onIdle, credentialScopeOf(blob));
    this.#blob = blob;
    this.#withClaims = withClaims;
    this.#leaseId = leaseId;
    this.#state = lastStates.get(blob);
    this.#streak = streaks.get(blob) ?? new Streak();
    streaks.set(blob, this.#streak);
  }

  protected override async runBatch(): Promise<void> {
    const batchInMs = this.#streak.mustYield();
    if (batchInMs !== undefined) {
      await this.#yield(batchInMs);
      if (!this.hasWork()) return;
    }
    const started = performance.now();
    beginTogether(this.waiting);
    this.#state ??= await this.#findEnd();
    if (!this.#state || !this.#rejectOversized(this.#state)) return;
    let count = batchSize(this.waiting, this.#state.length);
    if (this.#withClaims) {
      if (!(await this.#settleRepeats(this.#state))) return;
      const plan = planBlock(this.waiting, this.#state.length);
      const claiming = [...this.waiting];
      beginTogether(claiming);
      const claim = await claimEnd(this.#blob, this.#state, plan.operations, this.#context(claiming), () => this.#backoff(claiming));
      if (claim.kind !== "committed") {
        for (const call of claiming) call.attempts++;
        // A rejected claim is not the fault of any single record: all calls fail.
        if (claim.kind === "rejected" && !this.abortSignal.aborted) throw claim.error;
        this.#settleFailedAppend(claim, claiming);
        return;
      }
      this.#state = claim.state;
      // Calls may have been added or cancelled while the claim was written.
      if (!this.hasWork() || !this.#rejectOversized(this.#state)) return;
      count = claimedCalls(plan, this.waiting, this.#state.length);
      if (count === 0) return; // the next batch claims the same position for the calls that are left
    }
    await this.#append(this.#state, count, started);
  }

  protected override beforeIdle(): undefined {
    if (this.#state) lastStates.set(this.#blob, this.#state);
    else lastStates.delete(this.#blob);
  }

  protected override onBatchFailed(): void {
    this.#state = this.#found = undefined;
  }

  async #append(end: AppendBlobState, count: number, started: number): Promise<void> {
    const calls = this.takeBatch(count);
    // Some may have been enqueued while the end was read or claimed.
    beginTogether(calls);
    for (const call of calls) call.attempts++;
    const claimId = end.claims[0]?.id ?? "";
    if (!this.beginWrite(calls, calls, () => claimId)) {
      this.requeue(calls);
      return;
    }
    identify(calls, this.#withClaims ? claimId : newWriteId());
    const outcome = await appendBlock(this.#blob, end, recordsOf(calls), this.#withClaims, this.#context(calls), () => this.#backoff(calls));
    this.endWrite(calls, outcome);
    if (outcome.kind !== "committed") {
      this.#settleFailedAppend(outcome, calls);
      this.requeue(calls);
      return;
    }
    this.resetBackoff();
    this.#state = outcome.state;
    this.#confirmed = true;
    let offset = end.length;
    for (const call of calls) {
      call.resolve({ offset, committedBlockCount: outcome.state.blockCount, attempts: call.attempts }, "appended");
      offset += call.record.length;
    }
    this.#streak.appended(performance.now() - started);
  }

  /** Resolves the calls whose operation is stored already. Returns false if the end of the blob has to be read again, or no call is left. */
  async #settleRepeats(state: AppendBlobState): Promise<boolean> {
    const offsetOf = ({ settings: { operationId } }: AppendCall): number | undefined => {
      const found = operationId === undefined ? undefined : findOperation(state, operationId);
      return found?.kind === "appended" ? found.offset : undefined;
    };
    const isRepeat = (call: AppendCall): boolean => {
      const offset = call.isSettled() ? undefined : offsetOf(call);
      return offset !== undefined && offset !== call.otherBytesAt;
    };
    // Calls may be added during each comparison.
    for (let call = this.waiting.find(isRepeat); call; call = this.waiting.find(isRepeat)) {
      if (!this.#confirmed) {
        this.#state = undefined;
        return false;
      }
      const offset = offsetOf(call) ?? 0;
      // A client that does not use claims may have appended less than the block that was claimed.
      const isStored = offset + call.record.length <= state.length && await isStoredAt(this.#blob, offset, call.record, this.#context([call]));
      if (isStored) call.resolve({ offset, committedBlockCount: state.blockCount, attempts: call.attempts }, "recognised");
      else call.otherBytesAt = offset;
    }
    return this.hasWork();
  }

  /** Reads the end of the blob, and creates the blob if a caller asked for it. Undefined: no call is left. */
  async #findEnd(): Promise<AppendBlobState | undefined> {
    let awaitedClaim: string | undefined;
    for (let reads = 1; ; reads++) {
      let state = this.#found ?? (await readAppendBlob(this.#blob, this.#context(this.waiting)));
      this.#found = undefined;
      if (!state) {
        for (const call of this.waiting) if (!call.settings.createOptions) call.reject(this.#notFound());
        const options = this.waiting.find((call) => !call.isSettled())?.settings.createOptions;
        if (!options) return undefined;
        const created = await createAppendBlob(this.#blob, options, this.#context(this.waiting));
        state = created.state;
        if (!state && reads >= maxReads) throw created.rejection ?? this.#notFound();
      }
      if (!state) continue;
      this.#confirmed = true;
      // Another appender has claimed the end and is about to append. A claim by this one would invalidate that append, and
      // the other's next claim would invalidate this one's. So wait once for each claim: the other appender may have crashed.
      const [claim] = state.claims;
      if (!this.#withClaims || claim?.position !== state.length || claim.id === awaitedClaim || reads >= maxReads) return state;
      awaitedClaim = claim.id;
      await this.#yield(0);
    }
  }

  /** Rejects the records that do not fit into the blob. Returns whether any call is left. */
  #rejectOversized({ length, blockCount }: AppendBlobState): boolean {
    const fits = (call: AppendCall): boolean => blockCount < maxBlocks && length + call.record.length <= call.settings.maxSizeInBytes;
    if (!this.#confirmed && !this.waiting.every(fits)) {
      this.#state = undefined;
      return false;
    }
    for (const call of this.waiting) if (!fits(call)) call.reject(this.#limitReached(blockCount < maxBlocks ? "size" : "blocks"));
    return this.hasWork();
  }

  /** With a state from `lastStates` it was not a real attempt yet, and so not a conflict. */
  #backoff(calls: readonly AppendCall[]): number {
    return this.#confirmed ? this.backoffAfterConflict(calls) : 0;
  }

  #settleFailedAppend(outcome: Exclude<AppendOutcome, { kind: "committed" }>, calls: readonly AppendCall[]): void {
    const wasConfirmed = this.#confirmed;
    if (outcome.kind === "conflict") this.#streak.lost();
    this.#state = undefined;
    this.#found = outcome.kind === "conflict" ? outcome.found : undefined;
    this.endAttempt(calls, outcome.kind);
    if (outcome.kind === "rejected" && isBlockCountExceeded(outcome.error)) {
      for (const call of calls) call.reject(this.#limitReached("blocks", outcome.error));
    } else if (outcome.kind === "rejected" && this.abortSignal.aborted) {
      // Aborted because all its callers had left: this does not affect calls that were added since.
    } else if (outcome.kind === "conflict" && !wasConfirmed) {
      for (const call of calls) call.attempts--;
    } else this.settleFailed(outcome, calls, calls);
  }

  /** Waits for about the time that another appender needs for a batch. */
  #yield(batchInMs: number): Promise<void> {
    // The delays of a caller say little about another appender, and the others wait, too.
    const retryDelayInMs = Math.min(maxYieldInMs, this.waiting[0]?.settings.retryDelayInMs ?? 0);
    return this.pause(jitter(1.5 * Math.max(batchInMs, retryDelayInMs), 1 / 3));
  }

  #context(calls: readonly AppendCall[]): CallContext {
    return this.requestFor(calls, this.#leaseId, claimsName);
  }

  #notFound(): TargetNotFoundError {
    return createError(TargetNotFoundError, `${this.url} does not exist: pass createIfNotExists to create it.`, { url: this.url });
  }

  #limitReached(limit: "blocks" | "size", cause?: unknown): ConcurrencyErrorMap["APPEND_LIMIT"] {
    const why = limit === "blocks" ? `has ${maxBlocks} blocks, the maximum` : "would grow beyond maxSizeInBytes";
    return createError<ConcurrencyErrorMap["APPEND_LIMIT"]>(LimitError, `${this.url} ${why}: continue in another blob. Nothing was appended.`, { code: "APPEND_LIMIT", url: this.url, limit, cause });
  }
}

/** The ids with which callers find out later whether their records were appended, if they have none of their own. */
function identify(calls: readonly AppendCall[], claimId: string): void {
  let offset = 0;
  for (const call of calls) {
    call.writeToken = tokenOf(claimId, offset);
    offset += call.record.length;
  }
}
