import type { BlobCallOptions, BlobConditions, BlobLike } from "../clients/blob.js";
import { isLaterMetadata, laterFormatError } from "../core/format-version.js";
import { read } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import type { HeldLease } from "../lease/held-lease.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import type { EpochFloor } from "./epoch-floor.js";

/** The content of the metadata of a lock's blob: its epoch and its holder. */
export interface LockRecord {
  /** The fencing token of the first holder under the current lease; those of later holders under the same lease follow it. */
  readonly epoch: number;
  /** How many epochs are reserved, starting with `epoch`; including that of `nextTicket`. */
  readonly reserved: number;
  /** The process that acquired it: by default host, process id and a random id. */
  readonly holder: string | undefined;
  /** When it was acquired, by the holder's clock. */
  readonly acquiredOn: Date | undefined;
  /** The ticket of the last holder that had one. */
  readonly served: number | undefined;
  /** The last reserved epoch belongs to the process with this ticket, which need not write before it uses it. */
  readonly nextTicket: number | undefined;
  /** Whether holders are served in the order of their tickets only. */
  readonly fair: boolean;
  /** What the holder wants others to see. */
  readonly data: string | undefined;
  /** Of a crash guard: no holder with a smaller epoch has the guarded lease any more. */
  readonly lowestGuarding: number | undefined;
}

const names = {
  epoch: "asc_epoch",
  reserved: "asc_reserved",
  holder: "asc_holder",
  acquiredOn: "asc_since",
  served: "asc_served",
  nextTicket: "asc_next",
  fair: "asc_fair",
  data: "asc_data",
  lowestGuarding: "asc_guarding",
};

export function formatLockRecord(record: LockRecord): Record<string, string> {
  return {
    [names.epoch]: String(record.epoch),
    [names.reserved]: String(record.reserved),
    ...(record.holder !== undefined && { [names.holder]: encodeURIComponent(record.holder) }),
    ...(record.acquiredOn && { [names.acquiredOn]: record.acquiredOn.toISOString() }),
    ...(record.served !== undefined && { [names.served]: String(record.served) }),
    ...(record.nextTicket !== undefined && { [names.nextTicket]: String(record.nextTicket) }),
    ...(record.fair && { [names.fair]: "1" }),
    ...(record.data !== undefined && { [names.data]: encodeURIComponent(record.data) }),
    ...(record.lowestGuarding !== undefined && { [names.lowestGuarding]: String(record.lowestGuarding) }),
  };
}

/** A blob without a record is a lock that no process has acquired yet: its last epoch is 0. */
export function parseLockRecord(metadata: Record<string, string> | undefined): LockRecord {
  // Once for the record, and not for each of its fields: a listing has thousands of records.
  const byName = new Map<string, string>();
  for (const key in metadata) byName.set(key.toLowerCase(), metadata[key] as string);
  const read = (name: string): string | undefined => byName.get(name);
  const epoch = numberFrom(read(names.epoch), 0);
  const acquiredOn = new Date(read(names.acquiredOn) ?? NaN);
  return {
    epoch,
    reserved: numberFrom(read(names.reserved), epoch === 0 ? 0 : 1),
    holder: decode(read(names.holder)),
    acquiredOn: Number.isNaN(acquiredOn.getTime()) ? undefined : acquiredOn,
    served: numberFrom(read(names.served), undefined),
    nextTicket: numberFrom(read(names.nextTicket), undefined),
    fair: read(names.fair) !== undefined,
    data: decode(read(names.data)),
    lowestGuarding: numberFrom(read(names.lowestGuarding), undefined),
  };
}

/** Before a record is believed or replaced. @throws {@link SchemaError} if it is of a later version of the library. */
export function checkRecordFormat(metadata: Record<string, string> | undefined, url: string): void {
  if (isLaterMetadata(metadata)) throw laterFormatError("The record of the lock", redactUrl(url));
}

/** What the holder wants others to see, without the rest of the record. */
export function lockDataOf(metadata: Record<string, string> | undefined): string | undefined {
  for (const key in metadata) if (key.toLowerCase() === names.data) return decode(metadata[key]);
  return undefined;
}

/**
 * Epochs begin with the time in millionths of a second: larger ones are of another program. A lock with such an epoch cannot be used, as
 * there would be no larger number for its next holders; and it must not use up the numbers of the other locks of its prefix.
 */
export const maxEpoch: number = 2 ** 52;

/** The epoch after all that were ever reserved. */
export function nextEpoch(record: LockRecord): number {
  return Math.max(1, record.epoch + record.reserved);
}

function numberFrom<F>(text: string | undefined, fallback: F): number | F {
  const number = Number(text);
  return text !== undefined && Number.isSafeInteger(number) && number >= 0 ? number : fallback;
}

function decode(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text);
  } catch {
    return text;
  }
}

interface ProcessLike {
  pid?: number;
  env?: Record<string, string | undefined>;
  getBuiltinModule?: (id: string) => { hostname?: () => string } | undefined;
}

let processName: string | undefined;

/** The name of this process, for operators who inspect a lock: host, process id, and a random id in case both recur. */
export function thisProcess(): string {
  if (processName === undefined) {
    const { process } = globalThis as { process?: ProcessLike };
    const host = process?.env?.["HOSTNAME"] ?? process?.env?.["COMPUTERNAME"] ?? process?.getBuiltinModule?.("node:os")?.hostname?.() ?? "host";
    processName = `${host}/${process?.pid ?? "browser"}/${crypto.randomUUID().slice(0, 8)}`;
  }
  return processName;
}

/** The holder is stored percent-encoded in the metadata of a blob: these hold at most 8 KiB, and no half of a surrogate pair. */
export function checkHolder(holder: string): string {
  try {
    if (typeof holder === "string" && encodeURIComponent(holder).length <= 1_024) return holder;
  } catch {
    // It contains half of a surrogate pair.
  }
  throw new RangeError("holder must be a well-formed string of at most 1,024 characters when percent-encoded");
}

/** The data of a holder are stored as its name is, and a kilobyte of them leaves room for the rest of the record. */
export function checkData(data: string | undefined): string | undefined {
  if (data === undefined) return undefined;
  if (typeof data !== "string") throw new TypeError("data must be a string");
  try {
    if (encodeURIComponent(data).length <= 1_024) return data;
  } catch {
    // It contains half of a surrogate pair.
  }
  throw new RangeError("data must be well-formed text of at most 1,024 characters when percent-encoded");
}

/**
 * The prefix is part of the blob names as it is. A client of the SDK resolves `..` in a name as in any URL, so that the blob would be in
 * another container; and a name with an empty part, or one that ends with a dot, is not what the service stores.
 */
export function checkPrefix(prefix: string): string {
  if (typeof prefix !== "string") throw new TypeError("BlobLocks: prefix must be a string");
  const parts = prefix.split("/");
  const isWrong = (part: string, index: number): boolean => (part === "" && index < parts.length - 1) || (part.endsWith(".") && index < parts.length - 1) || part === "." || part === "..";
  if (/[\\%\p{Cc}\p{Cs}]/u.test(prefix) || parts.some(isWrong)) {
    throw new RangeError("BlobLocks: prefix must be well-formed text without % and \\, and none of its parts may be empty or end with a dot");
  }
  return prefix;
}

/**
 * Lock names may contain any characters. Blob names are restricted (`../`, a trailing dot, control characters), and tools restrict
 * them further. Letters, digits, `-` and `_` are kept; every other byte of the UTF-8 form becomes `~XX`.
 */
export function blobNameOf(prefix: string, name: string): string {
  if (typeof name !== "string" || name === "") throw new RangeError("The name of a lock must be a string that is not empty");
  const encoded = prefix + encode(name);
  if (encoded.length > maxBlobName) {
    throw new RangeError(`The name of a lock is too long: ${encoded.length} characters as a blob name, ${maxBlobName} at most`);
  }
  return encoded;
}

/** What the names of the blobs begin with, of all locks whose names begin with `name`. */
export function namePrefixOf(prefix: string, name: string): string {
  if (typeof name !== "string") throw new TypeError("prefix must be a string");
  return prefix + encode(name);
}

/** The name of the lock that is stored in this blob, or undefined if the blob is not a lock. */
export function lockNameOf(prefix: string, blobName: string): string | undefined {
  if (!blobName.startsWith(prefix)) return undefined;
  const encoded = blobName.slice(prefix.length);
  // Only as `encode` writes it: no other character is kept, and no kept one is escaped.
  if (!/^(?:[\w-]|~[\dA-F]{2})+$/.test(encoded) || /~(?:2D|5F|3\d|[46][1-9A-F]|[57][\dA])/.test(encoded)) return undefined;
  try {
    return decodeURIComponent(encoded.replaceAll("~", "%"));
  } catch {
    return undefined;
  }
}

const maxBlobName = 1024;

function encode(name: string): string {
  try {
    return encodeURIComponent(name)
      .replace(/[!'()*.~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
      .replaceAll("%", "~");
  } catch {
    throw new RangeError("The name of a lock must be well-formed text: it contains half of a surrogate pair");
  }
}

/** A record as it was read or written. */
export interface StoredRecord {
  readonly record: LockRecord;
  readonly etag: string;
  /** When the blob was last changed, by the service's clock. Undefined: this process has written the record itself. */
  readonly lastModified?: Date | undefined;
}

/**
 * The time in millionths of a second. It is larger than every epoch before: a process with many callers hands a lock over, or reserves
 * epochs, far more than a thousand times a second, but not a million times.
 */
export function epochOfNow(lastModified: Date | undefined): number {
  const [now, modified] = [Date.now(), lastModified?.getTime() ?? 0];
  // The clock of this process is behind that of the service, which tells the time in seconds.
  return Math.ceil(1_000 * (modified > now ? modified + 1_000 : now));
}

const timeoutInMs = 5_000;
/** Short: waiters of this process and of others wait for it. */
const readBackTimeoutInMs = 1_000;

/** The blob of a lock, read and written under its lease. */
export class LockRecordBlob {
  readonly #blob: BlobLike;
  readonly #lease: HeldLease;
  readonly #request: Omit<LeaseRequest, "abortSignal">;
  #lastModified: Date | undefined;

  constructor(blob: BlobLike, lease: HeldLease, request: Omit<LeaseRequest, "abortSignal">) {
    this.#blob = blob;
    this.#lease = lease;
    this.#request = request;
  }

  /**
   * The epoch to start with if there is no record: no process has used the lock yet, or a foreign program deleted the blob or replaced
   * its metadata. If a purge deleted it, the floor may be larger than the time.
   */
  async startEpoch({ epoch }: LockRecord, floor: EpochFloor): Promise<number> {
    if (epoch > 0) return 1;
    // Read under the lease: a purge that deleted the lock before has raised it by now.
    const [lastEpoch] = await Promise.all([floor.read(this.#request), this.#lastModified ? undefined : this.read()]);
    return Math.max(lastEpoch + 1, epochOfNow(this.#lastModified));
  }

  async read(limitInMs: number = timeoutInMs): Promise<StoredRecord> {
    const options = this.#options({ leaseId: this.#lease.leaseId });
    const properties = await read((abortSignal) => this.#blob.getProperties({ ...options, abortSignal }), { timeoutInMs: this.#timeout(limitInMs) });
    const { lastModified } = properties as { lastModified?: Date };
    this.#lastModified = lastModified ?? new Date(0);
    checkRecordFormat(properties.metadata, this.#blob.url);
    return { record: parseLockRecord(properties.metadata), etag: requireETag(properties.etag, redactUrl(this.#blob.url)), lastModified };
  }

  /** Rejects if the record could not be written. Returns a conflict, for the caller to handle. */
  async write(record: LockRecord, ifMatch: string): Promise<StoredRecord | { readonly conflict: unknown; readonly found: StoredRecord | undefined }> {
    const metadata = formatLockRecord(record);
    const outcome = await resolveWrite<StoredRecord, StoredRecord>(
      {
        send: async (abortSignal) => {
          const options = this.#options({ leaseId: this.#lease.leaseId, ifMatch });
          const { etag } = await this.#blob.setMetadata(metadata, { ...options, abortSignal });
          return { record, etag: requireETag(etag, redactUrl(this.#blob.url)) };
        },
        readBack: () => this.read(readBackTimeoutInMs),
        recognise: ({ record: found, etag }) => {
          if (etag === ifMatch) return "unchanged";
          return isSameRecord(found, record) ? "committed" : "not committed";
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
        return { record, etag: outcome.found.etag };
      case "conflict":
        return { conflict: outcome.error, found: outcome.found };
      case "rejected":
        throw outcome.error;
      case "unknown":
        throw outcome.readError ?? outcome.error;
    }
  }

  #timeout(limitInMs: number = timeoutInMs): number {
    return Math.min(limitInMs, Math.max(1, this.#lease.remainingInMs));
  }

  #options(conditions: BlobConditions): Omit<BlobCallOptions, "abortSignal"> {
    const { tracingOptions, onRequest } = this.#request;
    onRequest?.();
    return { conditions, ...(tracingOptions && { tracingOptions }) };
  }
}

/** The time distinguishes the writes of one holder from each other. */
function isSameRecord(a: LockRecord, b: LockRecord): boolean {
  return a.holder === b.holder && a.epoch === b.epoch && a.reserved === b.reserved && a.acquiredOn?.getTime() === b.acquiredOn?.getTime();
}
