import type { BlockBlobLike, LeasableBlobLike, LeasePropertiesLike } from "../clients/blob.js";
import { CallQueues } from "../core/call-queue.js";
import { delay, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import type { Hold } from "../core/hold-context.js";
import { read, request, toPublicError } from "../core/request.js";
import { pollDelay } from "../core/retry.js";
import { isAlreadyExists, isLeaseConflict, isNotFound, isTransient, toNotFoundError } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { tryAcquireOnce } from "../lease/acquire.js";
import type { Waiter } from "../lease/acquire.js";
import type { HeldLease } from "../lease/held-lease.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import type { LeaseAdapter, LeaseRequest } from "../lease/lease-adapters.js";
import { LeaseHandleImpl } from "../lease/lease-handle.js";
import { checkLeaseOptions } from "../lease/lease-options.js";
import { releaseAfterLateAcquire, tryRelease } from "../lease/orphaned-lease.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import { fromPrimary } from "../target/content.js";
import type { BlobLocks } from "./blob-locks.js";
import type { TryAcquireLockOptions } from "./lock-options.js";
import { formatLockRecord, parseLockRecord } from "./lock-record.js";

/** A reader that comes while others of its process read joins them without a request, if no writer was seen this long ago. */
const trustGateForInMs = 500;
/** Readers that have waited for this long wait in the same line as the writers, so that these cannot keep them out forever. */
const patienceInMs = 2_000;
const timeoutInMs = 5_000;

/** The names of the locks that a reader-writer lock consists of. */
export function gateOf(name: string): string {
  return `${name}/write`;
}

export function readersOf(name: string): string {
  return `${name}/read/`;
}

/** One reader's view of the lease that all readers of its process share. */
export class ReadLockHandle extends LeaseHandleImpl {
  readonly #gateUrl: string;

  constructor(gateUrl: string, lease: HeldLease, release: () => Promise<void>) {
    super(lease, release, "readerWriterLock");
    this.#gateUrl = gateUrl;
  }

  /** The URL of the gate stands for the whole lock: a reader inside a reader would wait for a writer that waits for the outer one. */
  override get holds(): readonly Hold[] {
    return [{ url: this.#gateUrl, isHeld: () => this.isHeld() }];
  }
}

export type ReaderWaiter = Waiter<ReadLockHandle>;

/**
 * The readers of one process. They share one lease on a blob of their own, whose existence tells writers of them.
 *
 * The order makes it safe. A reader leases its blob, and looks at the gate after the response has confirmed the lease. A writer
 * leases the gate, and looks for leased reader blobs after that. If the reader finds the gate free, the writer leases it later, and
 * looks even later: it finds the reader. If the reader finds the gate held, it steps back. A request for the reader's lease that
 * arrives late does not matter, as no reader is admitted before the response.
 */
export class ReaderGroup {
  readonly #locks: BlobLocks;
  readonly #name: string;
  readonly #options: TryAcquireLockOptions;
  readonly #gate: LeasableBlobLike;
  readonly #onIdle: () => void;
  readonly #waiters = new Set<ReaderWaiter>();
  #readers = 0;
  #lease: HeldLease | undefined;
  /** Since the gate was seen to be free, under the current lease. */
  #sinceFree: Clock | undefined;
  #gateIsHeld = false;
  #isRunning = false;
  #io = new AbortController();
  /** Who holds the gate, as far as it is known. */
  writer: string | undefined;

  constructor(locks: BlobLocks, name: string, options: TryAcquireLockOptions, onIdle: () => void) {
    this.#locks = locks;
    this.#name = name;
    this.#options = options;
    this.#gate = locks.blobOf(gateOf(name));
    this.#onIdle = onIdle;
  }

  enqueue(waiter: ReaderWaiter): void {
    if (!waiter.isSettled()) {
      waiter.onSettled = () => this.#leave(waiter);
      this.#waiters.add(waiter);
      if (this.#gateIsHeld) waiter.attempted();
      if (this.#lease && this.#sinceFree && this.#sinceFree() < trustGateForInMs) this.#admit(this.#lease);
    }
    if (!this.#isRunning) void this.#run();
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    const failures = new FailureStreak();
    let waitedInMs = startStopwatch();
    for (let first = this.#first(); first; first = this.#first()) {
      this.#io = new AbortController();
      const { signal } = this.#io;
      const { trace } = first;
      trace.begin();
      try {
        const isFree = await this.#enter({ abortSignal: signal, tracingOptions: trace.tracingOptions, onRequest: () => trace.countRequest() }, waitedInMs());
        failures.end();
        if (isFree) {
          waitedInMs = startStopwatch();
          continue;
        }
        trace.end("taken");
        for (const waiter of [...this.#waiters]) waiter.attempted();
      } catch (error) {
        trace.end("failed", error);
        // No caller was left: those that have come since begin anew.
        if (signal.aborted) continue;
        const isPointless = !isTransient(error) || failures.add();
        for (const waiter of [...this.#waiters]) {
          if (isPointless) waiter.reject(toPublicError(error, redactUrl(this.#gate.url), waitedInMs()));
          else waiter.attempted(error);
        }
      }
      if (this.#first()) await delay(pollDelay(waitedInMs()), signal).catch(() => undefined);
    }
    this.#isRunning = false;
    if (this.#readers === 0) await this.#release().catch((error: unknown) => logger.warning(`a read lock that no caller wanted any more could not be released: ${errorLabel(error)}`));
    this.#becomeIdle();
  }

  /** Admits the readers that wait, unless a writer holds the gate: returns whether it is free. */
  async #enter(options: LeaseRequest, waitedInMs: number): Promise<boolean> {
    // The wall clock was set, or the machine was paused: if the lease is lost, a writer may have had the lock since.
    if (this.#lease?.isInDoubt) await this.#lease.renew().catch(() => undefined);
    if (!this.#lease) {
      // A lease that is acquired and released again would delay the writer.
      if (this.#gateIsHeld && !(await this.#isGateFree(options))) return waitedInMs >= patienceInMs && this.#enterInLine(options);
      await this.#acquire(options);
    }
    const lease = this.#lease;
    let isFree = false;
    try {
      isFree = await this.#isGateFree(options);
    } finally {
      // Others of this process may still read.
      if (!isFree && this.#readers === 0) await this.#release().catch(() => undefined);
    }
    if (isFree && lease) this.#admit(lease);
    return isFree;
  }

  /** Waits for the gate as a writer does, and leases the blob of the readers while no writer can have the gate. */
  async #enterInLine(options: LeaseRequest): Promise<boolean> {
    const { durationInSeconds } = this.#options;
    const gate = await this.#locks.acquireFor("ReaderWriterLock", gateOf(this.#name), { durationInSeconds, waitInMs: Infinity, ...callOptions(options) });
    try {
      const lease = await this.#acquire(options);
      const isFree = gate.isHeld();
      if (isFree) {
        this.#sawGate(undefined);
        this.#admit(lease);
      } else await this.#release().catch(() => undefined);
      return isFree;
    } finally {
      await gate[Symbol.asyncDispose]();
    }
  }

  /** In one step with the check: a lease that is being released has no new readers. */
  #admit(lease: HeldLease): void {
    if (this.#lease !== lease || !lease.isHeld()) return;
    for (const waiter of [...this.#waiters]) {
      this.#readers++;
      lease.tracingOptions = waiter.holderTracing;
      const handle = new ReadLockHandle(redactUrl(this.#gate.url), lease, () => this.#onReleased(lease));
      waiter.resolve(handle, "acquired");
    }
  }

  async #onReleased(lease: HeldLease): Promise<void> {
    // Of a lease that was lost, the readers are not counted any more.
    if (this.#lease !== lease) return;
    if (--this.#readers > 0) return;
    await this.#release();
    this.#becomeIdle();
  }

  async #release(): Promise<void> {
    const lease = this.#lease;
    this.#forgetLease();
    await lease?.release();
  }

  #forgetLease(): void {
    this.#lease = undefined;
    this.#sinceFree = undefined;
    this.#readers = 0;
  }

  /** A new blob for each lease: late requests of an earlier one cannot affect it. */
  async #acquire(options: LeaseRequest): Promise<HeldLease> {
    const blob = this.#locks.blobOf(`${readersOf(this.#name)}${crypto.randomUUID()}`);
    const adapter = this.#adapterOf(blob);
    const settings = { ...checkLeaseOptions(this.#options), createIfNotExists: true };
    const leaseId = crypto.randomUUID();
    const created = await request((abortSignal) => adapter.create({ ...options, abortSignal }), { timeoutInMs, abortSignal: options.abortSignal });
    // A send that got no response may still arrive, and creates the blob anew after it was deleted.
    const sinceUnanswered = created.sends > 1 || created.kind === "unknown" ? startStopwatch() : undefined;
    // If it could not be created, the response to the next request says why.
    const outcome = created.kind === "ok" || isAlreadyExists(created.error) ? await tryAcquireOnce(adapter, leaseId, settings, options) : undefined;
    if (outcome?.kind === "acquired") {
      const { lease } = outcome;
      lease.sinceUnanswered ??= sinceUnanswered;
      lease.onLost(() => {
        // Not released now: readers may need the safety margin to stop. The lease is released after it, if it still exists.
        if (this.#lease !== lease) return;
        this.#forgetLease();
        this.#becomeIdle();
      });
      // What was seen of the gate before the lease was confirmed proves nothing.
      this.#sinceFree = undefined;
      this.#lease = lease;
      return lease;
    }
    // A lease request that arrives late finds no blob.
    void tryRelease(adapter, leaseId);
    releaseAfterLateAcquire(adapter, leaseId, sinceUnanswered);
    if (outcome?.kind === "failed") throw outcome.error;
    if (created.kind === "ok") throw new TypeError(`${adapter.url} is leased by another client`);
    throw toNotFoundError(created.error, adapter.url, undefined) ?? created.error;
  }

  #adapterOf(blob: LeasableBlobLike & BlockBlobLike): LeaseAdapter & { create: (options: LeaseRequest) => Promise<unknown> } {
    const { data } = this.#options;
    const record = { epoch: 0, reserved: 0, holder: this.#locks.holder, acquiredOn: new Date(), served: undefined, nextTicket: undefined, fair: false, data, lowestGuarding: undefined };
    return {
      ...leaseAdapterOf(blob),
      create: (options) => blob.upload(new Uint8Array(0), 0, { ...sdkOptions(options), metadata: formatLockRecord(record), conditions: { ifNoneMatch: "*" } }),
      // The lease ends with its blob: one request, and nothing is left behind.
      release: (leaseId, options) => blob.delete({ ...sdkOptions(options), conditions: { leaseId } }),
      releaseOrphaned: (leaseId, options) => removeReader(blob, leaseId, sdkOptions(options)),
    };
  }

  async #isGateFree({ abortSignal, tracingOptions, onRequest }: LeaseRequest): Promise<boolean> {
    onRequest?.();
    const options = (signal: AbortSignal): Parameters<LeasableBlobLike["getProperties"]>[0] => ({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    const properties: LeasePropertiesLike = await read((signal) => fromPrimary(this.#gate, { primaryOnly: true }, this.#gate.getProperties(options(signal))), {
      timeoutInMs,
      abortSignal,
    }).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
      return {};
    });
    const isHeld = properties.leaseState === "leased" || properties.leaseState === "breaking";
    this.#sawGate(isHeld ? (parseLockRecord(properties.metadata).holder ?? "a writer") : undefined);
    return !isHeld;
  }

  #sawGate(writer: string | undefined): void {
    this.writer = writer;
    this.#gateIsHeld = writer !== undefined;
    this.#sinceFree = writer === undefined ? startStopwatch() : undefined;
  }

  #first(): ReaderWaiter | undefined {
    return this.#waiters.values().next().value;
  }

  #leave(waiter: ReaderWaiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size === 0) this.#io.abort();
  }

  #becomeIdle(): void {
    if (this.#waiters.size === 0 && !this.#lease && !this.#isRunning) this.#onIdle();
  }
}

function sdkOptions({ abortSignal, tracingOptions, onRequest }: LeaseRequest): { abortSignal: AbortSignal; tracingOptions?: NonNullable<LeaseRequest["tracingOptions"]> } {
  onRequest?.();
  return { abortSignal, ...(tracingOptions && { tracingOptions }) };
}

function callOptions({ abortSignal, tracingOptions }: LeaseRequest): Pick<LeaseRequest, "abortSignal" | "tracingOptions"> {
  return { abortSignal, tracingOptions };
}

/** Deletes the blob of readers that are gone, whether it was leased or not: a late request may have created it anew. */
async function removeReader(blob: BlockBlobLike, leaseId: string, options: { abortSignal: AbortSignal }): Promise<unknown> {
  try {
    return await blob.delete({ ...options, conditions: { leaseId } });
  } catch (error) {
    if (!isLeaseConflict(error)) throw error;
    return blob.delete(options);
  }
}

/** Deletes the blob of readers that have died, unless it is leased. Never rejects. */
export async function removeDeadReader(blob: BlockBlobLike): Promise<void> {
  const removed = await request((abortSignal) => blob.delete({ abortSignal }), { timeoutInMs });
  if (removed.kind === "ok" || isNotFound(removed.error)) return;
  logger.verbose(`${redactUrl(blob.url)}, which readers have left, was not deleted: ${errorLabel(removed.error)}`);
}

const groups = new CallQueues<ReaderGroup>();

/** The group of all readers in this process that want the lock in the same way. */
export function readerGroupFor(locks: BlobLocks, name: string, options: TryAcquireLockOptions): ReaderGroup {
  const { owner, key } = leaseAdapterOf(locks.blobOf(gateOf(name)));
  // A lease that is not renewed, or that is held for a limited time, begins with its only reader.
  const alone = options.autoRenew === false || (options.maxHoldInMs ?? Infinity) < Infinity ? crypto.randomUUID() : undefined;
  return groups.get(owner, JSON.stringify([key, locks.holderKey(options), alone]), (onIdle) => new ReaderGroup(locks, name, options, onIdle));
}
