import type { BlobCallOptions, BlobConditions, BlobLike } from "../clients/blob.js";
import { read } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import type { HeldLease } from "../lease/held-lease.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import type { EpochAllocator } from "../lease/waiter-queue.js";
import { formatLockRecord, nextEpoch, parseLockRecord } from "./lock-record.js";
import type { LockRecord } from "./lock-record.js";

/** More are never used under one lease: it is released before. */
const maxReservation = 1_000;
const timeoutInMs = 5_000;
/** Short: waiters of this process and of others wait for it. */
const readBackTimeoutInMs = 1_000;

/** How often a reservation is attempted, if earlier requests of this process keep changing the record. */
const maxAttempts = 5;

/** Reserved epochs, and the ETag of the record that reserves them. */
interface Reservation {
  readonly epoch: number;
  readonly reserved: number;
  /** The smallest epoch that the holder before the first of them may have had. */
  readonly previousEpoch: number;
  readonly etag: string;
}

/**
 * Allocates the epoch of each holder of a lock, the fencing token: larger than that of every earlier holder, forever. It is
 * stored in the metadata of the lock's blob, and written under the lease, so that a holder that was paused past its lease cannot
 * write an old one. For callers that wait in this process, epochs are reserved in the same request, so that a handover needs no
 * request; unless other processes are to see each holder (`visibly`), which costs a request for each.
 */
export function epochAllocator(blob: BlobLike, holder: string, visibly = false): EpochAllocator {
  const maxReserved = visibly ? 1 : maxReservation;
  const reservations = new WeakMap<HeldLease, { next: number; previousEpoch: number; readonly last: Reservation }>();
  return {
    key: JSON.stringify([holder, visibly]),
    async next(lease, waiting, request) {
      let epochs = reservations.get(lease);
      if (!epochs || epochs.next >= endOf(epochs.last)) {
        const reserved = Math.min(maxReserved, Math.max(1, waiting, 2 * (epochs?.last.reserved ?? 0)));
        const last = await reserve(blob, lease, { reserved, holder, before: epochs?.last, request });
        reservations.set(lease, (epochs = { next: last.epoch, previousEpoch: last.previousEpoch, last }));
      }
      const { previousEpoch } = epochs;
      const epoch = epochs.next++;
      epochs.previousEpoch = epoch;
      return { epoch, previousEpoch };
    },
  };
}

interface ReservationRequest {
  readonly reserved: number;
  readonly holder: string;
  /** The reservation before this one, under the same lease. */
  readonly before: Reservation | undefined;
  readonly request: Omit<LeaseRequest, "abortSignal">;
}

/** What a reservation builds on: the next epoch, the smallest epoch that the last holder may have had, and the record's ETag. */
interface Base {
  readonly next: number;
  readonly previousEpoch: number;
  readonly etag: string;
}

/**
 * No other client can write under the lease, but an earlier request of this process can, if its response was lost and it arrives
 * late: after a later reservation, it would reserve the same epochs again. So each write is conditional on the record before it.
 */
async function reserve(blob: BlobLike, lease: HeldLease, reservation: ReservationRequest): Promise<Reservation> {
  const { before } = reservation;
  const record = new LockRecordBlob(blob, lease, reservation);
  const known = before && { next: endOf(before), previousEpoch: endOf(before) - 1, etag: before.etag };
  const first = await record.write(known ?? baseOf(await record.read()));
  if (!("conflict" in first)) return first;
  // The record has changed: an earlier reservation of this process was still in flight.
  let { found } = first;
  const again = async (): Promise<Reservation> => {
    const reserved = await record.write(baseOf(found ?? (await record.read())));
    if (!("conflict" in reserved)) return reserved;
    found = reserved.found;
    throw new RecordChanged(reserved.conflict);
  };
  return retry(again, { maxAttempts: maxAttempts - 1, shouldRetry: (error) => error instanceof RecordChanged }).catch((error: unknown) => {
    throw error instanceof RecordChanged ? error.cause : error;
  });
}

class RecordChanged extends Error {
  constructor(cause: unknown) {
    super("the lock record was changed", { cause });
  }
}

interface StoredRecord {
  readonly record: LockRecord;
  readonly etag: string;
}

/** The blob of a lock, read and written under its lease. */
class LockRecordBlob {
  readonly #blob: BlobLike;
  readonly #lease: HeldLease;
  readonly #reservation: ReservationRequest;
  /** Distinguishes the writes of this reservation from others of the same holder. */
  readonly #since = new Date();

  constructor(blob: BlobLike, lease: HeldLease, reservation: ReservationRequest) {
    this.#blob = blob;
    this.#lease = lease;
    this.#reservation = reservation;
  }

  async read(limitInMs: number = timeoutInMs): Promise<StoredRecord> {
    const options = this.#options({ leaseId: this.#lease.leaseId });
    const properties = await read((abortSignal) => this.#blob.getProperties({ ...options, abortSignal }), { timeoutInMs: this.#timeout(limitInMs) });
    return { record: parseLockRecord(properties.metadata), etag: requireETag(properties.etag, redactUrl(this.#blob.url)) };
  }

  /** Rejects if the record could not be written. Returns a conflict, for the caller to handle. */
  async write(base: Base): Promise<Reservation | { readonly conflict: unknown; readonly found: StoredRecord | undefined }> {
    const { reserved, holder } = this.#reservation;
    const { next: epoch, previousEpoch } = base;
    const metadata = formatLockRecord({ epoch, reserved, holder, acquiredOn: this.#since });
    const outcome = await resolveWrite<Reservation, StoredRecord>(
      {
        send: async (abortSignal) => {
          const options = this.#options({ leaseId: this.#lease.leaseId, ifMatch: base.etag });
          const { etag } = await this.#blob.setMetadata(metadata, { ...options, abortSignal });
          return { epoch, reserved, previousEpoch, etag: requireETag(etag, redactUrl(this.#blob.url)) };
        },
        readBack: () => this.read(readBackTimeoutInMs),
        recognise: ({ record, etag }) => {
          if (etag === base.etag) return "unchanged";
          return this.#isOwn(record) ? "committed" : "not committed";
        },
        onConflict: () => 0,
      },
      // A write that was not committed is not sent again: the queue releases the lease and continues to poll.
      { tryLimit: { timeoutInMs: () => this.#timeout() }, maxResends: 0, maxReadBacks: 1 },
    );
    switch (outcome.kind) {
      case "committed":
        return outcome.value;
      case "recognised":
        return { epoch: outcome.found.record.epoch, reserved, previousEpoch, etag: outcome.found.etag };
      case "conflict":
        return { conflict: outcome.error, found: outcome.found };
      case "rejected":
        throw outcome.error;
      case "unknown":
        throw outcome.readError ?? outcome.error;
    }
  }

  #isOwn(record: LockRecord): boolean {
    const { holder, reserved } = this.#reservation;
    return record.holder === holder && record.reserved === reserved && record.acquiredOn?.getTime() === this.#since.getTime();
  }

  #timeout(limitInMs: number = timeoutInMs): number {
    return Math.min(limitInMs, Math.max(1, this.#lease.remainingInMs));
  }

  #options(conditions: BlobConditions): Omit<BlobCallOptions, "abortSignal"> {
    const { tracingOptions, onRequest } = this.#reservation.request;
    onRequest?.();
    return { conditions, ...(tracingOptions && { tracingOptions }) };
  }
}

function baseOf({ record, etag }: StoredRecord): Base {
  return { next: nextEpoch(record), previousEpoch: record.epoch, etag };
}

function endOf({ epoch, reserved }: Reservation): number {
  return epoch + reserved;
}
