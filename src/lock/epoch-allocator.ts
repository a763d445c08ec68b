import type { BlobLike } from "../clients.js";
import { bounded } from "../core/bounded.js";
import { isRace } from "../core/storage-errors.js";
import { displayUrl } from "../core/telemetry.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import type { LeaseKeeper } from "../lease/held-lease.js";
import type { LeaseTicketing } from "../lease/waiter-queue.js";
import { formatLockRecord, nextEpoch, parseLockRecord } from "./lock-record.js";
import type { LockRecord } from "./lock-record.js";
import { requireETag } from "../target/target.js";

/** More are never handed out in a row: the lease is released before. */
const mostReserved = 1_000;
const limitInMs = 5_000;

/** How often a reservation is written, if the answers are lost each time. */
const maxAttempts = 5;

/** Numbers that are taken, and the ETag of the record that says so. */
interface Reservation {
  readonly epoch: number;
  readonly reserved: number;
  /** The smallest number that the holder before the first of them may have had. */
  readonly previousEpoch: number;
  readonly etag: string;
}

/**
 * Gives each holder of a lock its epoch: a number larger than that of every holder before it, for ever. It is kept in
 * the metadata of the lock's blob, and written under the lease, so that a holder that was paused past its lease cannot
 * write an old one. For those who wait in this process numbers are reserved in the same request, so that handing the
 * lock on needs none; unless each one is to be seen from outside (`visibly`), which costs a request for each.
 */
export function epochTickets(blob: BlobLike, holder: string, visibly = false): LeaseTicketing {
  const maxReserved = visibly ? 1 : mostReserved;
  const reservations = new WeakMap<LeaseKeeper, { next: number; previousEpoch: number; readonly last: Reservation }>();
  return {
    key: JSON.stringify([holder, visibly]),
    async take(keeper, waiting, request) {
      let numbers = reservations.get(keeper);
      if (!numbers || numbers.next >= endOf(numbers.last)) {
        const reserved = Math.min(maxReserved, Math.max(1, waiting, 2 * (numbers?.last.reserved ?? 0)));
        const last = await reserve(blob, keeper, { reserved, holder, before: numbers?.last, request });
        reservations.set(keeper, (numbers = { next: last.epoch, previousEpoch: last.previousEpoch, last }));
      }
      const { previousEpoch } = numbers;
      const epoch = numbers.next++;
      numbers.previousEpoch = epoch;
      return { epoch, previousEpoch };
    },
  };
}

/**
 * Nobody else can write under the lease, but an earlier request of our own may, if it was taken for lost and arrives
 * after all: on top of a later reservation it would give numbers out again. So each is conditional on the record before.
 */
async function reserve(blob: BlobLike, keeper: LeaseKeeper, wanted: Wanted): Promise<Reservation> {
  const { reserved, holder } = wanted;
  const { tracingOptions, onRequest } = wanted.request;
  const options = { ...(tracingOptions && { tracingOptions }) };
  const within = (): number => Math.min(limitInMs, Math.max(1, keeper.remainingInMs));
  const url = displayUrl(blob.url);
  const since = new Date();
  let base = wanted.before && { next: endOf(wanted.before), etag: wanted.before.etag };
  let previousEpoch = (base?.next ?? 1) - 1;
  for (let attempt = 1; ; attempt++) {
    if (!base) {
      const conditions = { leaseId: keeper.leaseId };
      onRequest?.();
      const { answer } = await bounded(within(), undefined, (abortSignal) => blob.getProperties({ ...options, conditions, abortSignal }));
      const record = parseLockRecord(answer.metadata);
      const etag = requireETag(answer.etag, url);
      if (attempt > 1 && isOurs(record, wanted, since)) return { epoch: record.epoch, reserved, previousEpoch, etag };
      base = { next: nextEpoch(record), etag };
      previousEpoch = record.epoch;
    }
    const epoch = base.next;
    const conditions = { leaseId: keeper.leaseId, ifMatch: base.etag };
    const metadata = formatLockRecord({ epoch, reserved, holder, since });
    onRequest?.();
    try {
      const { answer } = await bounded(within(), undefined, (abortSignal) => blob.setMetadata(metadata, { ...options, conditions, abortSignal }));
      return { epoch, reserved, previousEpoch, etag: requireETag(answer.etag, url) };
    } catch (error) {
      // Moved: by our own first send, whose answer was lost, or by an earlier reservation that was under way. Look.
      if (!isRace(error) || attempt === maxAttempts) throw error;
      base = undefined;
    }
  }
}

/** Whether it was written by an earlier attempt at the same reservation. */
function isOurs(record: LockRecord, { holder, reserved }: Wanted, since: Date): boolean {
  return record.holder === holder && record.reserved === reserved && record.since?.getTime() === since.getTime();
}

function endOf({ epoch, reserved }: Reservation): number {
  return epoch + reserved;
}

interface Wanted {
  readonly reserved: number;
  readonly holder: string;
  /** The reservation before this one, under the same lease. */
  readonly before: Reservation | undefined;
  readonly request: Omit<LeaseRequest, "abortSignal">;
}
