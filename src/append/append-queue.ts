import type { AppendBlobLike } from "../clients/blob.js";
import { CallQueue, CallQueues, credentialScopeOf } from "../core/call-queue.js";
import { WriteCall } from "../core/pending-call.js";
import type { WriteCallSettings } from "../core/pending-call.js";
import { jitter } from "../core/retry.js";
import { isBlockCountExceeded } from "../core/storage-errors.js";
import { beginTogether, redactUrl } from "../core/telemetry.js";
import { AppendLimitError, TargetNotFoundError } from "../errors.js";
import type { RequestContext } from "../target/target.js";
import { appendBlock, claimEnd } from "./append-block.js";
import type { AppendOutcome } from "./append-block.js";
import { claimsName, createAppendBlob, readAppendBlob } from "./append-state.js";
import type { AppendBlobState, NewLog } from "./append-state.js";

/** The options of one append after defaults and checks. */
export interface AppendSettings extends WriteCallSettings {
  readonly leaseId: string | undefined;
  readonly uniqueRecords: boolean;
  readonly coalesce: boolean;
  readonly createOptions: NewLog | undefined;
  readonly maxSizeInBytes: number;
  readonly maxBatchInBytes: number;
}

/** Where a record stands. */
export interface AppendResult {
  /** The position of its first byte in the blob. */
  offset: number;
  /** How many blocks the blob had when the record was found to be in it. There can be 50,000. */
  committedBlockCount: number;
  /** How often it was tried: more than 1 means that others appended first. */
  attempts: number;
}

/** One caller, and its record. */
export class AppendCall extends WriteCall<AppendResult, AppendSettings> {
  readonly record: Uint8Array;

  constructor(record: Uint8Array, settings: AppendSettings) {
    super(settings);
    this.record = record;
  }
}

/** The most blocks that an append blob can have. */
const maxBlocks = 50_000;

/** After this many blocks in a row other processes get a chance: an appender that goes on from its own ETag is always faster. */
const blocksInARow = 16;

/** How often a blob is read that exists at one moment and is gone at the next, or whose end another appender has claimed. */
const maxReads = 10;

const queues = new CallQueues<AppendQueue>();

/** Where the last append through a client left its blob: saves the next one a read. If it is outdated, only that attempt is lost. */
const remembered = new WeakMap<AppendBlobLike, AppendBlobState>();

/** Hands a call to the queue that appends all records of this process, under the same credentials, to the same blob. */
export function enqueueAppend(blob: AppendBlobLike, call: AppendCall): void {
  const { coalesce, uniqueRecords, leaseId } = call.settings;
  if (!coalesce) {
    new AppendQueue(blob, call.settings, undefined).add(call);
    return;
  }
  if (call.isSettled()) return;
  const key = JSON.stringify([blob.url, uniqueRecords, leaseId]);
  queues.get(credentialScopeOf(blob), key, (onIdle) => new AppendQueue(blob, call.settings, onIdle)).add(call);
}

/** Each batch finds the end of the blob (unless it is known from the batch before), claims it, and appends what waits as one block. */
class AppendQueue extends CallQueue<AppendCall> {
  readonly #blob: AppendBlobLike;
  readonly #unique: boolean;
  readonly #leaseId: string | undefined;
  /** The end of the blob, if it is known. */
  #state: AppendBlobState | undefined;
  /** A state that was read after a conflict: another appender may have claimed its end. */
  #found: AppendBlobState | undefined;
  /** Whether it was read since this queue began: a remembered state is good to try with, not to reject a record by. */
  #seen = false;
  #blocks = 0;

  constructor(blob: AppendBlobLike, settings: AppendSettings, onIdle: (() => void) | undefined) {
    super(redactUrl(blob.url), onIdle);
    this.#blob = blob;
    this.#unique = settings.uniqueRecords;
    this.#leaseId = settings.leaseId;
    this.#state = remembered.get(blob);
  }

  protected override async runBatch(): Promise<void> {
    const started = performance.now();
    beginTogether(this.waiting);
    this.#state ??= await this.#findEnd();
    if (!this.#state || !this.#rejectWhatDoesNotFit(this.#state)) return;
    if (!this.#unique) {
      const claiming = [...this.waiting];
      beginTogether(claiming);
      const claim = await claimEnd(this.#blob, this.#state, this.#context(claiming), () => this.#backoff(claiming));
      if (claim.kind !== "committed") {
        for (const call of claiming) call.attempts++;
        // No record is to blame for a claim that the service rejects.
        if (claim.kind === "rejected" && !this.abortSignal.aborted) throw claim.error;
        this.#settleFailedAppend(claim, claiming);
        return;
      }
      this.#state = claim.state;
      // Calls may have been enqueued, or have gone, while the claim was written.
      if (!this.hasWork() || !this.#rejectWhatDoesNotFit(this.#state)) return;
    }
    await this.#append(this.#state, started);
  }

  protected override beforeIdle(): undefined {
    if (this.#state) remembered.set(this.#blob, this.#state);
    else remembered.delete(this.#blob);
  }

  protected override onBatchFailed(): void {
    this.#state = undefined;
  }

  async #append(end: AppendBlobState, started: number): Promise<void> {
    const calls = this.takeBatch(this.#batchSize(end));
    // Some may have been enqueued while the end was read or claimed.
    beginTogether(calls);
    for (const call of calls) call.attempts++;
    if (!this.beginWrite(calls, calls)) {
      this.requeue(calls);
      return;
    }
    const outcome = await appendBlock(this.#blob, end, joined(calls), !this.#unique, this.#context(calls), () => this.#backoff(calls));
    this.endWrite(calls);
    if (outcome.kind !== "committed") {
      this.#settleFailedAppend(outcome, calls);
      this.requeue(calls);
      return;
    }
    this.resetBackoff();
    this.#state = outcome.state;
    this.#seen = true;
    let offset = end.length;
    for (const call of calls) {
      call.resolve({ offset, committedBlockCount: outcome.state.blockCount, attempts: call.attempts }, "appended");
      offset += call.record.length;
    }
    if (++this.#blocks % blocksInARow === 0 && this.hasWork()) await this.#giveWay(performance.now() - started);
  }

  /** Reads the end of the blob, and creates the blob if a caller wants that. Undefined: no caller is left. */
  async #findEnd(): Promise<AppendBlobState | undefined> {
    let awaited: string | undefined;
    for (let reads = 1; ; reads++) {
      let state = this.#found ?? (await readAppendBlob(this.#blob, this.#context(this.waiting)));
      this.#found = undefined;
      if (!state) {
        for (const call of this.waiting) if (!call.settings.createOptions) call.reject(this.#notFound());
        const options = this.waiting.find((call) => !call.isSettled())?.settings.createOptions;
        if (!options) return undefined;
        state = await createAppendBlob(this.#blob, options, this.#context(this.waiting));
        if (!state && reads >= maxReads) throw this.#notFound();
      }
      if (!state) continue;
      this.#seen = true;
      // Another appender is about to append: a claim of this one would invalidate that, and its next one this one's. It may
      // also have died.
      const [claim] = state.claims;
      if (this.#unique || claim?.position !== state.length || claim.id === awaited || reads >= maxReads) return state;
      awaited = claim.id;
      await this.#giveWay(0);
    }
  }

  /** Returns whether any call is left. */
  #rejectWhatDoesNotFit({ length, blockCount }: AppendBlobState): boolean {
    const fits = (call: AppendCall): boolean => blockCount < maxBlocks && length + call.record.length <= call.settings.maxSizeInBytes;
    if (!this.#seen && !this.waiting.every(fits)) {
      this.#state = undefined;
      return false;
    }
    for (const call of this.waiting) if (!fits(call)) call.reject(this.#limitReached(blockCount < maxBlocks ? "size" : "blocks"));
    return this.hasWork();
  }

  /** How many of the next records fit into one block, and their callers allow a blob of that size. */
  #batchSize({ length: end }: AppendBlobState): number {
    let length = 0;
    const count = this.waiting.findIndex((call, index) => {
      length += call.record.length;
      const { maxBatchInBytes, maxSizeInBytes } = call.settings;
      return index > 0 && (length > maxBatchInBytes || end + length > maxSizeInBytes);
    });
    return count < 0 ? this.waiting.length : count;
  }

  /** An end that was only remembered is no attempt yet, and so no conflict. */
  #backoff(calls: readonly AppendCall[]): number {
    if (this.#seen) return this.backoffAfterConflict(calls, calls);
    for (const call of calls) call.inFlight = false;
    return 0;
  }

  #settleFailedAppend(outcome: Exclude<AppendOutcome, { kind: "committed" }>, calls: readonly AppendCall[]): void {
    const wasSeen = this.#seen;
    this.#state = undefined;
    this.#found = outcome.kind === "conflict" ? outcome.found : undefined;
    this.endAttempt(calls, outcome.kind);
    if (outcome.kind === "rejected" && isBlockCountExceeded(outcome.error)) {
      for (const call of calls) call.reject(this.#limitReached("blocks", outcome.error));
    } else if (outcome.kind === "rejected" && this.abortSignal.aborted) {
      // Cut off as its callers had gone: no concern of the ones that were enqueued since.
    } else if (outcome.kind === "conflict" && !wasSeen) {
      for (const call of calls) call.attempts--;
    } else this.settleFailed(outcome, calls, calls);
  }

  /** Waits for about the time that another appender needs. */
  #giveWay(batchInMs: number): Promise<void> {
    return this.pause(jitter(1.5 * Math.max(batchInMs, this.waiting[0]?.settings.retryDelayInMs ?? 0), 1 / 3));
  }

  #context(calls: readonly AppendCall[]): RequestContext {
    return this.requestFor(calls, this.#leaseId, claimsName);
  }

  #notFound(): TargetNotFoundError {
    return new TargetNotFoundError(`${this.url} does not exist: pass createIfMissing to make it`, { url: this.url });
  }

  #limitReached(limit: "blocks" | "size", cause?: unknown): AppendLimitError {
    const why = limit === "blocks" ? `has ${maxBlocks} blocks, the most there can be` : "would grow beyond maxSizeInBytes";
    return new AppendLimitError(`${this.url} ${why}: go on in another blob. Nothing was appended.`, { url: this.url, limit, cause });
  }
}

function joined(calls: readonly AppendCall[]): Uint8Array {
  const [only] = calls;
  if (only && calls.length === 1) return only.record;
  const bytes = new Uint8Array(calls.reduce((sum, call) => sum + call.record.length, 0));
  let offset = 0;
  for (const call of calls) {
    bytes.set(call.record, offset);
    offset += call.record.length;
  }
  return bytes;
}
