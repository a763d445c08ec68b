import type { AppendBlobLike } from "../clients.js";
import { delay, fullJitter } from "../core/delay.js";
import { ownerOf } from "../core/owner.js";
import { PendingCall } from "../core/pending-call.js";
import type { PendingCallSettings } from "../core/pending-call.js";
import { explain, isOutOfBlocks } from "../core/storage-errors.js";
import { beginTogether, displayUrl, endUnsettled, logger } from "../core/telemetry.js";
import { AppendLimitError, TargetNotFoundError } from "../errors.js";
import type { RequestContext } from "../target/target.js";
import { appendBlock, claimEnd } from "./append-block.js";
import type { Landing } from "./append-block.js";
import { claimsName, createLog, readLog } from "./append-state.js";
import type { LogState, NewLog } from "./append-state.js";

/** The options of one append after defaults and checks. */
export interface AppendSettings extends PendingCallSettings {
  readonly leaseId: string | undefined;
  readonly uniqueRecords: boolean;
  readonly coalesce: boolean;
  readonly newLog: NewLog | undefined;
  readonly maxSizeInBytes: number;
  readonly maxBatchInBytes: number;
}

/** The most blocks that an append blob can have. */
const maxBlocks = 50_000;

/** So many blocks in a row, then others get a chance: whoever goes on from what it wrote is always faster than they are. */
const blocksInARow = 16;

/** How often a blob that is there at one moment and gone at the next is looked for. */
const maxLooks = 10;

const groups = new WeakMap<object, Map<string, AppendGroup>>();

/** Where the last append through a client left its blob: saves the next one a look, and is wrong at no harm. */
const remembered = new WeakMap<AppendBlobLike, LogState>();

/** Hands a call to the loop that appends all records of this process, under the same rights, to the same blob. */
export function joinAppendGroup(blob: AppendBlobLike, call: AppendCall): void {
  if (call.settled) return;
  const { coalesce, uniqueRecords, leaseId } = call.settings;
  if (!coalesce) {
    new AppendGroup(blob, call.settings, () => undefined).add(call);
    return;
  }
  const owner = ownerOf(blob);
  const ofOwner = groups.get(owner) ?? new Map<string, AppendGroup>();
  groups.set(owner, ofOwner);
  const key = JSON.stringify([blob.url, uniqueRecords, leaseId]);
  const group = ofOwner.get(key) ?? new AppendGroup(blob, call.settings, () => ofOwner.delete(key));
  ofOwner.set(key, group);
  group.add(call);
}

class AppendGroup {
  readonly #blob: AppendBlobLike;
  readonly #url: string;
  readonly #unique: boolean;
  readonly #leaseId: string | undefined;
  readonly #onIdle: () => void;
  #queue: AppendCall[] = [];
  /** The calls whose records are on their way; empty while a request is for everybody. */
  #inFlight: readonly AppendCall[] = [];
  #running = false;
  /** Ends what is under way when nobody waits for it any more. */
  #io = new AbortController();
  /** The end of the blob, if it is known. */
  #state: LogState | undefined;
  /** Whether it was seen since this group began: what is only remembered is good to try with, not to refuse by. */
  #seen = false;
  /** Not while results are handed out: there is nothing to abort then, and an abort makes an exception with a stack each time. */
  #underWay = false;
  #losses = 0;
  #streak = 0;

  constructor(blob: AppendBlobLike, settings: AppendSettings, onIdle: () => void) {
    this.#blob = blob;
    this.#url = displayUrl(blob.url);
    this.#unique = settings.uniqueRecords;
    this.#leaseId = settings.leaseId;
    this.#onIdle = onIdle;
    this.#state = remembered.get(blob);
  }

  add(call: AppendCall): void {
    call.onSettled = () => this.#stopIfAbandoned();
    this.#queue.push(call);
    if (this.#running) return;
    this.#running = true;
    void this.#drain();
  }

  /** The loop: find the end, claim it, append what waits; until nobody is left. Never rejects. */
  async #drain(): Promise<void> {
    while (this.#hasWork()) {
      this.#io = new AbortController();
      this.#underWay = true;
      try {
        await this.#round();
      } catch (error) {
        this.#state = undefined;
        // An abort was meant for callers that have gone; one that came in the same instant needs a round of its own.
        if (!this.#io.signal.aborted) for (const call of this.#queue) call.reject(explain(error, this.#url));
      }
    }
    if (this.#state) remembered.set(this.#blob, this.#state);
    else remembered.delete(this.#blob);
    this.#running = false;
    this.#onIdle();
  }

  async #round(): Promise<void> {
    const started = performance.now();
    beginTogether(this.#queue);
    this.#state ??= await this.#find();
    if (!this.#state || !this.#refuseWhatDoesNotFit(this.#state)) return;
    if (!this.#unique) {
      const claim = await claimEnd(this.#blob, this.#state, this.#context());
      if (claim.kind !== "landed") {
        for (const call of this.#queue) call.attempts++;
        return this.#afterLoss(claim, this.#queue);
      }
      this.#state = claim.state;
      // Some came, some have gone while the claim was written.
      if (!this.#hasWork() || !this.#refuseWhatDoesNotFit(this.#state)) return;
    }
    const before = this.#state;
    const calls = this.#take();
    this.#inFlight = calls;
    for (const call of calls) {
      call.attempts++;
      call.inFlight = true;
    }
    const landing = await appendBlock(this.#blob, before, joined(calls), !this.#unique, this.#context());
    for (const call of calls) call.inFlight = false;
    if (landing.kind !== "landed") {
      this.#queue.unshift(...calls);
      return this.#afterLoss(landing, calls);
    }
    this.#losses = 0;
    this.#state = landing.state;
    this.#seen = true;
    this.#underWay = false;
    let offset = before.length;
    for (const call of calls) {
      call.trace.end("appended");
      call.resolve({ offset, committedBlockCount: landing.state.blockCount, attempts: call.attempts });
      offset += call.record.length;
    }
    if (++this.#streak % blocksInARow === 0 && this.#hasWork()) await this.#pause(performance.now() - started);
  }

  #hasWork(): boolean {
    this.#inFlight = [];
    this.#queue = this.#queue.filter((call) => !call.settled);
    return this.#queue.length > 0;
  }

  /** Looks for the end of the blob, and makes the blob if somebody wants that. Undefined: nobody waits any more. */
  async #find(): Promise<LogState | undefined> {
    let awaited: string | undefined;
    for (let looks = 1; ; looks++) {
      let state = await readLog(this.#blob, this.#context());
      if (!state) {
        for (const call of this.#queue) if (!call.settings.newLog) call.reject(this.#missing());
        const log = this.#queue.find((call) => !call.settled)?.settings.newLog;
        if (!log) return undefined;
        state = await createLog(this.#blob, log, this.#context());
        if (!state && looks >= maxLooks) throw this.#missing();
      }
      if (!state) continue;
      this.#seen = true;
      // Somebody is about to append: a claim of ours now would call that off, and its next one ours. It may have died.
      const [claim] = state.claims;
      if (this.#unique || claim?.position !== state.length || claim.id === awaited || looks >= maxLooks) return state;
      awaited = claim.id;
      await this.#pause(0);
    }
  }

  /** Returns whether anybody is left. */
  #refuseWhatDoesNotFit({ length, blockCount }: LogState): boolean {
    const fits = (call: AppendCall): boolean => blockCount < maxBlocks && length + call.record.length <= call.settings.maxSizeInBytes;
    if (!this.#seen && !this.#queue.every(fits)) {
      this.#state = undefined;
      return false;
    }
    for (const call of this.#queue) if (!fits(call)) call.reject(this.#full(blockCount < maxBlocks ? "size" : "blocks"));
    return this.#hasWork();
  }

  /** The next records, in order, that fit into one block and whose callers allow a blob of that size. */
  #take(): AppendCall[] {
    let length = 0;
    const end = this.#state?.length ?? 0;
    const count = this.#queue.findIndex((call, index) => {
      length += call.record.length;
      const { maxBatchInBytes, maxSizeInBytes } = call.settings;
      return index > 0 && (length > maxBatchInBytes || end + length > maxSizeInBytes);
    });
    return this.#queue.splice(0, count < 0 ? this.#queue.length : count);
  }

  async #afterLoss(landing: Exclude<Landing, { kind: "landed" }>, calls: readonly AppendCall[]): Promise<void> {
    const { kind, error } = landing;
    const seen = this.#seen;
    this.#state = undefined;
    endUnsettled(calls, kind);
    if (kind === "refused") {
      if (this.#io.signal.aborted) return;
      const refusal = isOutOfBlocks(error) ? this.#full("blocks", error) : explain(error, this.#url);
      for (const call of calls) call.reject(refusal);
    } else if (kind === "unknown") {
      logger.warning(`whether a block was appended to ${this.#url} is unknown`);
      for (const call of calls) {
        if (call.settings.onUnknown === "throw" || call.attempts >= call.settings.maxAttempts) call.rejectUnknown(error);
        call.mayHaveLanded = true;
      }
    } else if (seen) {
      logger.verbose(`lost a race for ${this.#url}`);
      for (const call of calls) {
        call.lostRaces++;
        if (call.attempts >= call.settings.maxAttempts) call.rejectConflict(error);
      }
      const { retryDelayInMs = 0, maxRetryDelayInMs = 0 } = calls.find((call) => !call.settled)?.settings ?? {};
      await this.#wait(fullJitter(this.#losses++, retryDelayInMs, maxRetryDelayInMs));
    } else {
      // The end was only remembered: that is no attempt yet.
      for (const call of calls) call.attempts--;
    }
  }

  /** For about the time that another appender needs. */
  #pause(roundInMs: number): Promise<void> {
    return this.#wait(Math.max(roundInMs, this.#queue[0]?.settings.retryDelayInMs ?? 0) * (1 + Math.random()));
  }

  async #wait(ms: number): Promise<void> {
    this.#inFlight = [];
    this.#underWay = true;
    await delay(ms, this.#io.signal).catch(() => undefined);
  }

  #context(): RequestContext {
    const waiting = this.#inFlight.length > 0 ? this.#inFlight : this.#queue;
    return {
      abortSignal: this.#io.signal,
      tracingOptions: waiting.find((call) => !call.settled)?.trace.tracingOptions,
      onRequest: () => {
        for (const call of waiting) call.trace.countRequest();
      },
      leaseId: this.#leaseId,
      journalName: claimsName,
    };
  }

  #stopIfAbandoned(): void {
    if (!this.#underWay) return;
    const waiting = this.#inFlight.length > 0 ? this.#inFlight : this.#queue;
    if (waiting.every((call) => call.settled)) this.#io.abort();
  }

  #missing(): TargetNotFoundError {
    return new TargetNotFoundError(`${this.#url} does not exist: pass createIfMissing to make it`, { url: this.#url });
  }

  #full(limit: "blocks" | "size", cause?: unknown): AppendLimitError {
    const why = limit === "blocks" ? `has ${maxBlocks} blocks, the most there can be` : "would grow beyond maxSizeInBytes";
    return new AppendLimitError(`${this.#url} ${why}: go on in another blob. Nothing was appended.`, { url: this.#url, limit, cause });
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
export class AppendCall extends PendingCall<AppendResult, AppendSettings> {
  readonly record: Uint8Array;

  constructor(record: Uint8Array, settings: AppendSettings) {
    super(settings);
    this.record = record;
  }
}
