import type { BlobLike } from "../clients/blob.js";
import { startIdleTimer, startTimer } from "../core/deadline.js";
import { read, request } from "../core/request.js";
import { retry } from "../core/retry.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { createError, LockModeMismatchError } from "../errors.js";
import type { HeldLease, PendingWrite } from "../lease/held-lease.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import type { FencingToken } from "../lease/lease-handle.js";
import type { EpochFloor } from "./epoch-floor.js";
import { epochOfNow, formatLockRecord, LockRecordBlob, maxEpoch, nextEpoch } from "./lock-record.js";
import type { LockRecord, StoredRecord } from "./lock-record.js";

/** Under one reservation, the record names the first of its holders: operators see the others only after {@link recordAfterInMs}. */
const minReservation = 32;
const maxReservation = 1_000;
/** A holder that has an epoch without a write is written to the record if it holds the lock for this long. */
const recordAfterInMs = 1_000;

/** At least so often the record of a lock that is used is written: a purge takes the time of the last write for that of the last use. */
const recordEveryInMs = 3_600_000;

/** A release waits for so long until the record of its holder is written. */
const maxRecordingInMs = 1_000;

/** How often a reservation is attempted, if earlier requests of this process keep changing the record. */
const maxAttempts = 5;

/** The mark of a crash guard is raised with the next write of the record; with one of its own if it is this far behind. */
const maxGuardingBehind = 8;

/** When the lock of a crash guard was not used for so long, the mark is raised by a request of its own. */
const markAfterInMs = 2_000;
const markTimeoutInMs = 5_000;

/** Epochs that this process may use as long as the record has this ETag: no other process has allocated one since. */
interface Reservation extends StoredRecord {
  next: number;
  /** Exclusive. */
  readonly end: number;
  previousEpoch: number;
}

/** An epoch that the holder before has reserved for this process. */
interface NamedEpoch {
  readonly epoch: number;
  /** The record that says so. */
  readonly base: StoredRecord;
}

/** Who asks for an epoch. */
export interface EpochRequest {
  /** How many callers of this process wait for the lock. */
  readonly waiting: number;
  /** The ticket of the holder, if it had to queue up behind other processes. */
  readonly ticket: number | undefined;
  /** The ticket was drawn by another process. */
  readonly isBorrowed: boolean;
  /** Tickets are counted anew: this one is the last that was served, even if the record has a larger one. */
  readonly restarted: boolean;
  readonly request: Omit<LeaseRequest, "abortSignal">;
}

/** What the record says of the holders of this object. */
export interface HolderInfo {
  readonly holder: string;
  readonly fair: boolean;
  /** Other processes see each holder: costs a request for each. */
  readonly visibly: boolean;
  /** The lock is a crash guard: its record says which holders may still have the guarded lease. */
  readonly guards: boolean;
  readonly data: string | undefined;
}

/**
 * Allocates the epoch of each holder of a lock, the fencing token: larger than that of every earlier holder, forever. It is
 * stored in the metadata of the lock's blob, and written under the lease, so that a holder that was paused past its lease cannot
 * write an old one.
 *
 * Several epochs are reserved with one write. The response to an acquire has the ETag of the blob. If it is that of our own last
 * write, no other process has allocated an epoch since, and the next reserved one is ours without a request.
 *
 * While processes wait, a holder reserves one more epoch, for the ticket after its own. Its successor has read the record when it
 * waited, and if the ETag shows that it is still the same, the successor begins its work at once, and writes the record meanwhile.
 * It may die before that is done. So no process carries a reservation to another lease if the record names a ticket: its epoch, which
 * is larger, may have been used.
 */
export class EpochAllocator {
  readonly key: string;
  readonly #blob: BlobLike;
  readonly #info: HolderInfo;
  readonly #floor: EpochFloor;
  #own: Reservation | undefined;
  #known: StoredRecord | undefined;
  /** The largest epoch of a record that this process has seen. If a later record has a smaller one, a foreign program has written it. */
  #largestSeen = 0;
  #stopRecording: (() => void) | undefined;
  /** The write of the record by a holder that has its epoch already, and what it replaces. Never rejects. */
  #recording: { readonly done: Promise<void>; readonly replaces: string } | undefined;
  /** Holders of this process with smaller epochs do not have the guarded lease any more, nor does any other process. */
  #lowestGuarding = 0;

  constructor(blob: BlobLike, info: HolderInfo, floor: EpochFloor) {
    this.key = JSON.stringify([info.holder, info.visibly, info.guards, info.data]);
    this.#blob = blob;
    this.#info = info;
    this.#floor = floor;
  }

  /** Of this process. */
  get holder(): string {
    return this.#info.holder;
  }

  /** The record as this process saw or wrote it last. */
  get known(): StoredRecord | undefined {
    return this.#known;
  }

  /** The record as a read without the lease showed it. */
  learn(stored: StoredRecord): void {
    // A waiter of the wrong mode is told now, and not when it is its turn.
    this.#checkMode(stored.record);
    this.#saw(stored.record);
    this.#known = stored;
  }

  #saw({ epoch }: LockRecord): void {
    // Not one that no lock can have: the blob has to be deleted then, and the lock begins anew.
    if (epoch <= maxEpoch) this.#largestSeen = Math.max(this.#largestSeen, epoch);
  }

  async next(lease: HeldLease, who: EpochRequest): Promise<FencingToken> {
    this.#stopRecording?.();
    await this.#recording?.done;
    const named = this.#namedFor(lease, who);
    if (named) {
      this.#recording = { done: this.#recordNamed(lease, who, named), replaces: named.base.etag };
      return { epoch: named.epoch, previousEpoch: named.base.record.epoch };
    }
    const own = this.#ownFor(lease);
    if (own && own.next < own.end && !this.#mustWrite(who, own.record)) {
      const token = this.#use(own);
      this.#recordLater(lease, token.epoch);
      return token;
    }
    return this.#use(await this.#reserve(lease, who));
  }

  /** The record of the holder: without it, its successors would not know that it is their turn. */
  pendingWrite(): PendingWrite | undefined {
    const recording = this.#recording;
    return recording && { replaces: recording.replaces, settled: () => read(() => recording.done, { timeoutInMs: maxRecordingInMs }).catch(() => undefined) };
  }

  released(lease: HeldLease): void {
    this.#stopRecording?.();
    if (lease.check()) this.#own = undefined;
    const own = this.#own;
    if (own && this.#lowestGuarding > (own.record.lowestGuarding ?? Infinity)) this.#stopRecording = startIdleTimer(markAfterInMs, () => void this.#markReleased(own));
  }

  /** Of a crash guard, while the lock is held: no holder with a smaller epoch has the guarded lease. */
  raiseGuarding(lease: HeldLease, epoch: number): void {
    this.#lowestGuarding = Math.max(this.#lowestGuarding, epoch);
    const own = this.#ownFor(lease);
    const behind = epoch - (own?.record.lowestGuarding ?? epoch);
    // Not awaited: a mark that is not raised costs the successor of a dead holder some requests.
    if (own && behind > maxGuardingBehind) void this.#rewrite(lease, { ...own.record, lowestGuarding: epoch });
  }

  /**
   * Tells the record of a guard that is not used any more that no holder has left its lease behind: a purge may delete it. Without a
   * lease: the service rejects it if a process has the lock, or has written the record since. Never rejects.
   */
  async #markReleased(own: Reservation): Promise<void> {
    if (this.#own !== own) return;
    const record: LockRecord = { ...own.record, lowestGuarding: this.#lowestGuarding };
    const send = (abortSignal: AbortSignal): ReturnType<BlobLike["setMetadata"]> =>
      this.#blob.setMetadata(formatLockRecord(record), { conditions: { ifMatch: own.etag }, abortSignal });
    const sent = await request(send, { timeoutInMs: markTimeoutInMs });
    if (sent.kind !== "ok" || sent.value.etag === undefined || this.#own !== own) return;
    this.#known = { record, etag: sent.value.etag };
    this.#own = { ...own, ...this.#known };
  }

  /** The reservation, if the record is still ours: written under this lease, or seen when it was acquired. */
  #ownFor(lease: HeldLease): Reservation | undefined {
    const own = this.#own;
    if (!own || this.#lease === lease) return own;
    return own.etag === lease.etag && own.record.nextTicket === undefined ? own : undefined;
  }

  /** The record as it is now, if this process knows it. */
  #recordFor(lease: HeldLease): StoredRecord | undefined {
    if (this.#own && this.#lease === lease) return this.#own;
    return this.#known?.etag === lease.etag ? this.#known : undefined;
  }

  /** The epoch that the record reserves for the ticket of this holder. A ticket is used once: so is its epoch. */
  #namedFor(lease: HeldLease, { ticket, isBorrowed, restarted }: EpochRequest): NamedEpoch | undefined {
    const base = this.#recordFor(lease);
    if (!base || ticket === undefined || base.record.nextTicket !== ticket || isBorrowed || restarted || !this.#mayName()) return undefined;
    this.#checkMode(base.record);
    const epoch = nextEpoch(base.record) - 1;
    return epoch <= maxEpoch && epoch > this.#largestSeen ? { epoch, base } : undefined;
  }

  /** Not if others must see the holder before it begins. */
  #mayName(): boolean {
    return !this.#info.visibly && !this.#info.guards;
  }

  /** Never rejects. */
  async #recordNamed(lease: HeldLease, who: EpochRequest, named: NamedEpoch): Promise<void> {
    try {
      await this.#reserve(lease, { ...who, request: {} }, named);
    } catch (error) {
      logger.verbose(`the holder of ${redactUrl(this.#blob.url)} could not be recorded: ${errorLabel(error)}`);
    } finally {
      this.#recording = undefined;
    }
  }

  /** The lease under which the record was last written. */
  #lease: HeldLease | undefined;

  #use(own: Reservation): FencingToken {
    const { previousEpoch } = own;
    const epoch = own.next++;
    own.previousEpoch = epoch;
    return { epoch, previousEpoch, lowestGuarding: own.record.lowestGuarding };
  }

  #isVisible(): boolean {
    return this.#info.visibly || this.#info.fair || this.#info.guards;
  }

  #mustWrite({ ticket }: EpochRequest, record: LockRecord): boolean {
    if (this.#isVisible() || ticket !== undefined || record.data !== this.#info.data) return true;
    return Math.abs(Date.now() - (record.acquiredOn?.getTime() ?? 0)) >= recordEveryInMs;
  }

  /**
   * No other client can write under the lease, but an earlier request of this process can, if its response was lost and it arrives
   * late: after a later reservation, it would reserve the same epochs again. So each write is conditional on the record before it.
   */
  async #reserve(lease: HeldLease, who: EpochRequest, named?: NamedEpoch): Promise<Reservation> {
    const before = this.#ownFor(lease);
    const reserved = this.#isVisible() ? 1 : Math.min(maxReservation, Math.max(minReservation, who.waiting, before ? 2 * before.record.reserved : 0));
    // A hand-over within this process: the others still wait.
    const names = this.#mayName() && (who.ticket !== undefined || (this.#lease === lease && before?.record.nextTicket !== undefined));
    const blob = new LockRecordBlob(this.#blob, lease, who.request);
    const write = async (base: StoredRecord): Promise<Reservation | RecordChanged> => {
      // The holder has its epoch, unless a late request has changed the record that says so: then it needs none, but its successors do.
      const given = named?.base.etag === base.etag ? named.epoch : undefined;
      // A foreign program may have restored an old record, as a restore of the container does: epochs that were used since are not
      // larger than the time. Not of a crash guard: its next holder tries all epochs since the last mark, one by one.
      const leastEpoch = base.lastModified && !this.#info.guards ? Math.max(this.#largestSeen + 1, epochOfNow(base.lastModified)) : 1;
      const epoch = given ?? Math.max(await blob.startEpoch(base.record, this.#floor), nextEpoch(base.record), leastEpoch);
      if (epoch > maxEpoch) throw new RangeError(`The record of ${redactUrl(this.#blob.url)} has the epoch ${epoch}, which another program has written: there is no larger one for its next holders. Delete the blob.`);
      const record = this.#recordAfter(base.record, epoch, reserved, names, who);
      const written = await blob.write(record, base.etag);
      if ("conflict" in written) return new RecordChanged(written.conflict, written.found);
      const own: Reservation =
        given === undefined
          ? { ...written, next: epoch, end: epoch + reserved, previousEpoch: base.record.epoch }
          : { ...written, next: epoch + 1, end: epoch + reserved, previousEpoch: epoch };
      // If the response came after the lease was lost, this process may have acquired the lock again, and reserved larger epochs. The
      // ETag would not tell: it is that of this record when the new lease was acquired.
      if (lease.check()) return own;
      this.#own = own;
      this.#known = written;
      this.#lease = lease;
      this.#saw(record);
      return own;
    };
    const first = await write(this.#recordFor(lease) ?? (await blob.read()));
    if (!(first instanceof RecordChanged)) return first;
    // The record has changed: an earlier reservation of this process was still in flight.
    let { found } = first;
    const again = async (): Promise<Reservation> => {
      const own = await write(found ?? (await blob.read()));
      if (!(own instanceof RecordChanged)) return own;
      ({ found } = own);
      throw own;
    };
    return retry(again, { maxAttempts: maxAttempts - 1, shouldRetry: (error) => error instanceof RecordChanged }).catch((error: unknown) => {
      throw error instanceof RecordChanged ? error.cause : error;
    });
  }

  #recordAfter(before: LockRecord, epoch: number, reserved: number, names: boolean, who: EpochRequest): LockRecord {
    this.#checkMode(before);
    const { holder, fair, data, guards } = this.#info;
    const served = servedAfter(before.served, who);
    // A lock that becomes a crash guard only now: the holder before this one may have been one, of an older version.
    const lowest = before.lowestGuarding ?? (before.epoch > 0 ? before.epoch : epoch);
    const lowestGuarding = guards ? Math.max(lowest, this.#lowestGuarding) : before.lowestGuarding;
    const next = names ? { reserved: reserved + 1, nextTicket: served + 1 } : { reserved, nextTicket: undefined };
    return { epoch, ...next, holder, acquiredOn: new Date(), served, fair, data, lowestGuarding };
  }

  #checkMode({ epoch, fair }: LockRecord): void {
    if (epoch === 0 || fair === this.#info.fair) return;
    const url = redactUrl(this.#blob.url);
    const [expected, found] = [this.#info.fair, fair].map((mode) => (mode ? "fair" : "not fair"));
    throw createError(LockModeMismatchError, `The lock ${url} is ${found ?? ""}, and this process uses it as ${expected ?? ""}. Pass the same option "fair" everywhere.`, {
      url,
      setting: "fair",
      expected: String(this.#info.fair),
      found: String(fair),
    });
  }

  /** Operators shall see who holds a lock. For a short section a request would cost more than it is worth. */
  #recordLater(lease: HeldLease, epoch: number): void {
    const acquiredOn = new Date();
    this.#stopRecording = startTimer(recordAfterInMs, () => void this.#recordHolder(lease, epoch, acquiredOn));
  }

  async #recordHolder(lease: HeldLease, epoch: number, acquiredOn: Date): Promise<void> {
    const own = this.#ownFor(lease);
    if (!own || lease.check()) return;
    const forNext = own.record.nextTicket === undefined ? 0 : 1;
    await this.#rewrite(lease, { ...own.record, epoch, reserved: own.end - epoch + forNext, acquiredOn });
  }

  /** Changes the record without allocating epochs. Never rejects. */
  async #rewrite(lease: HeldLease, record: LockRecord): Promise<void> {
    const own = this.#ownFor(lease);
    if (!own) return;
    // If it arrives late, the service rejects it: it carries the id of this lease.
    const written = await new LockRecordBlob(this.#blob, lease, {}).write(record, own.etag).catch((error: unknown) => {
      logger.verbose(`the holder of ${redactUrl(this.#blob.url)} could not be recorded: ${errorLabel(error)}`);
      return undefined;
    });
    if (!written || "conflict" in written || this.#own !== own) return;
    this.#known = written;
    this.#own = { ...own, ...written };
    this.#lease = lease;
  }
}

class RecordChanged extends Error {
  readonly found: StoredRecord | undefined;

  constructor(cause: unknown, found: StoredRecord | undefined) {
    super("the lock record was changed", { cause });
    this.found = found;
  }
}

/** Tickets that were passed over are served late, and do not count back; unless counting has begun anew. */
function servedAfter(before: number | undefined, { ticket, restarted }: EpochRequest): number {
  if (ticket === undefined || before === undefined) return ticket ?? before ?? 0;
  return restarted ? ticket : Math.max(before, ticket);
}
