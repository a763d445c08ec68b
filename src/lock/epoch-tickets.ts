import type { BlobLike } from "../clients.js";
import { bounded } from "../internal/bounded.js";
import type { LeaseRequest } from "../lease/lease-adapter.js";
import type { LeaseKeeper } from "../lease/lease-keeper.js";
import type { LeaseTicket, LeaseTicketing } from "../lease/lease-queue.js";
import { formatLockRecord, nextEpoch, parseLockRecord } from "../lease/lock-record.js";

/** More are never handed out in a row: the lease is released before. */
const mostReserved = 1_000;
const limitInMs = 5_000;

/**
 * Gives each holder of a lock its epoch: a number larger than that of every holder before it, for ever. It is kept in
 * the metadata of the lock's blob, and written under the lease, so that a holder that was paused past its lease cannot
 * write an old one. For those who wait in this process numbers are reserved in the same request, so that handing the
 * lock on needs none; unless each one is to be seen from outside (`visibly`), which costs a request for each.
 */
export function epochTickets(blob: BlobLike, holder: string, visibly = false): LeaseTicketing {
  const maxReserved = visibly ? 1 : mostReserved;
  const reservations = new WeakMap<LeaseKeeper, { next: number; end: number; reserved: number; previousEpoch: number }>();
  return {
    key: JSON.stringify([holder, visibly]),
    async take(keeper, waiting, request) {
      let numbers = reservations.get(keeper);
      if (!numbers || numbers.next >= numbers.end) {
        const reserved = Math.min(maxReserved, Math.max(1, waiting, 2 * (numbers?.reserved ?? 0)));
        const { epoch, previousEpoch } = await reserve(blob, keeper, { reserved, holder, known: numbers?.end, request });
        reservations.set(keeper, (numbers = { next: epoch, end: epoch + reserved, reserved, previousEpoch }));
      }
      const { previousEpoch } = numbers;
      const epoch = numbers.next++;
      numbers.previousEpoch = epoch;
      return { epoch, previousEpoch };
    },
  };
}

/** A lost answer does no harm: the re-send writes the same, and nobody else can write. */
async function reserve(blob: BlobLike, keeper: LeaseKeeper, wanted: Reservation): Promise<LeaseTicket> {
  const { reserved, holder, request } = wanted;
  const { tracingOptions, onRequest } = request;
  const options = { conditions: { leaseId: keeper.leaseId }, ...(tracingOptions && { tracingOptions }) };
  const within = (): number => Math.min(limitInMs, Math.max(1, keeper.remainingInMs));
  let epoch = wanted.known;
  let previousEpoch = (epoch ?? 1) - 1;
  if (epoch === undefined) {
    onRequest?.();
    const { answer } = await bounded(within(), undefined, (abortSignal) => blob.getProperties({ ...options, abortSignal }));
    const record = parseLockRecord(answer.metadata);
    epoch = nextEpoch(record);
    previousEpoch = record.epoch;
  }
  const metadata = formatLockRecord({ epoch, reserved, holder, since: new Date() });
  onRequest?.();
  await bounded(within(), undefined, (abortSignal) => blob.setMetadata(metadata, { ...options, abortSignal }));
  return { epoch, previousEpoch };
}

interface Reservation {
  readonly reserved: number;
  readonly holder: string;
  /** The number to begin with, if it is known from the reservation before. */
  readonly known: number | undefined;
  readonly request: Omit<LeaseRequest, "abortSignal">;
}
