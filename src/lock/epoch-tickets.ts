import type { BlobLike } from "../clients.js";
import { bounded } from "../internal/bounded.js";
import type { LeaseRequest } from "../lease/lease-adapter.js";
import type { LeaseKeeper } from "../lease/lease-keeper.js";
import type { LeaseTicketing } from "../lease/lease-queue.js";
import { formatLockRecord, nextEpoch, parseLockRecord } from "../lease/lock-record.js";

/** More are never handed out in a row: the lease is released before. */
const maxReserved = 1_000;
const limitInMs = 5_000;

/**
 * Gives each holder of a lock its epoch: a number larger than that of every holder before it, for ever. It is kept in
 * the metadata of the lock's blob, and written under the lease, so that a holder that was paused past its lease cannot
 * write an old one. For those who wait in this process numbers are reserved in the same request, so that handing the
 * lock on needs none.
 */
export function epochTickets(blob: BlobLike, holder: string): LeaseTicketing {
  const reservations = new WeakMap<LeaseKeeper, { next: number; end: number; reserved: number }>();
  return {
    key: holder,
    async take(keeper, waiting, request) {
      let numbers = reservations.get(keeper);
      if (!numbers || numbers.next >= numbers.end) {
        const reserved = Math.min(maxReserved, Math.max(1, waiting, 2 * (numbers?.reserved ?? 0)));
        const epoch = await reserve(blob, keeper, { reserved, holder, known: numbers?.end, request });
        reservations.set(keeper, (numbers = { next: epoch, end: epoch + reserved, reserved }));
      }
      return numbers.next++;
    },
  };
}

/** A lost answer does no harm: the re-send writes the same, and nobody else can write. */
async function reserve(blob: BlobLike, keeper: LeaseKeeper, wanted: Reservation): Promise<number> {
  const { reserved, holder, request } = wanted;
  const { tracingOptions, onRequest } = request;
  const options = { conditions: { leaseId: keeper.leaseId }, ...(tracingOptions && { tracingOptions }) };
  const within = (): number => Math.min(limitInMs, Math.max(1, keeper.remainingInMs));
  let epoch = wanted.known;
  if (epoch === undefined) {
    onRequest?.();
    const { answer } = await bounded(within(), undefined, (abortSignal) => blob.getProperties({ ...options, abortSignal }));
    epoch = nextEpoch(parseLockRecord(answer.metadata));
  }
  const metadata = formatLockRecord({ epoch, reserved, holder, since: new Date() });
  onRequest?.();
  await bounded(within(), undefined, (abortSignal) => blob.setMetadata(metadata, { ...options, abortSignal }));
  return epoch;
}

interface Reservation {
  readonly reserved: number;
  readonly holder: string;
  /** The number to begin with, if it is known from the reservation before. */
  readonly known: number | undefined;
  readonly request: Omit<LeaseRequest, "abortSignal">;
}
