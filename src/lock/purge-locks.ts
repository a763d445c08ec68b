import type { BlobCallOptions, BlobItemLike, ContainerLike } from "../clients/blob.js";
import type { CallOptions, PurgeOptions, PurgeResult } from "../clients/call.js";
import { RequestTimeoutError, throwIfAborted } from "../core/deadline.js";
import { isLaterMetadata } from "../core/format-version.js";
import { iterate } from "../core/iterate.js";
import { inParallel } from "../core/parallel.js";
import { read, request } from "../core/request.js";
import { isDefinitive, isNotFound, isParentNotFound, isUnauthorized, toTimeoutError } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, TargetNotFoundError } from "../errors.js";
import { EpochFloor } from "./epoch-floor.js";
import { lockNameOf, maxEpoch, nextEpoch, parseLockRecord } from "./lock-record.js";
import type { LockRecord } from "./lock-record.js";
import { countedBlobOf, countedPrefixOf, isCountRecord } from "./recorded-count.js";
import { isTicketBlob, lockBlobOf } from "./tickets.js";

/** Long enough for locks that are used once a month, as an accounting run has. */
const defaultAgeInMs = 31 * 86_400_000;
/** The floor is raised once for so many locks. */
const batchSize = 500;
/** Of the 20,000 requests a second of an account, far below what would disturb others. */
const parallelDeletes = 16;
const timeoutInMs = 30_000;

const optionNames: OptionNames<PurgeOptions> = { olderThanInMs: 1, abortSignal: 1, tracingOptions: 1 };

/** Deletes the locks of a prefix that were not used for a while. See {@link BlobLocks.purge}. */
export function purgeLocks(container: ContainerLike, prefix: string, options: PurgeOptions = {}): Promise<PurgeResult> {
  return withSpan("BlobLocks.purge", options, async (tracingOptions) => {
    checkOptions("BlobLocks.purge", options, optionNames);
    const ageInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? defaultAgeInMs, { min: 0 });
    const purge = new Purge(container, prefix, Date.now() - ageInMs, { abortSignal: options.abortSignal, tracingOptions });
    try {
      return await purge.run();
    } catch (error) {
      const url = redactUrl(container.url);
      if (error instanceof RequestTimeoutError) throw toTimeoutError(error, url);
      if (!isParentNotFound(error)) throw error;
      throw createError(TargetNotFoundError, `${url} does not exist`, { url, cause: error });
    }
  }, { targetKind: "lock", url: redactUrl(container.url) });
}

/** A blob of the listing. Its deletion is conditional on this ETag. */
interface ListedBlob {
  readonly name: string;
  readonly etag: string;
}

/**
 * Why deleting a lock harms no user of it, whatever it is doing at that moment:
 *
 * | The user                                       | What happens                                                               |
 * |------------------------------------------------|----------------------------------------------------------------------------|
 * | holds the lock, or allocates an epoch          | its lease is active: the service rejects the delete                         |
 * | acquires it between the listing and the delete | the same; or it has written an epoch, and the ETag differs                  |
 * | acquires it after the delete                   | 404: it creates a blob without a record, reads the floor, and starts above  |
 * | remembers reserved epochs for the old ETag     | the new blob has another ETag, so it does not use them                      |
 * | was paused past its lease                      | its writes carry the id of a lease that the new blob never had: rejected    |
 * | waits with a ticket                            | it comes first on the new blob: tickets are advisory                        |
 *
 * A delete that arrives late, after the blob was created again, is rejected because of its ETag.
 */
class Purge {
  readonly #container: ContainerLike;
  readonly #prefix: string;
  readonly #olderThan: number;
  readonly #call: CallOptions;
  readonly #floor: EpochFloor;
  #locks: (ListedBlob & { readonly lastEpoch: number })[] = [];
  #tickets: ListedBlob[] = [];
  #counts: ListedBlob[] = [];
  #deleted = 0;
  #kept = 0;

  constructor(container: ContainerLike, prefix: string, olderThan: number, call: CallOptions) {
    this.#container = container;
    this.#prefix = prefix;
    this.#olderThan = olderThan;
    this.#call = call;
    this.#floor = new EpochFloor(container, prefix);
  }

  async run(): Promise<PurgeResult> {
    const { abortSignal, tracingOptions } = this.#call;
    const request = { prefix: this.#prefix, includeMetadata: true, ...(tracingOptions && { tracingOptions }) };
    for await (const blob of iterate((signal) => this.#container.listBlobsFlat({ ...request, abortSignal: signal }), { abortSignal, timeoutInMs })) {
      this.#add(blob);
      if (this.#locks.length + this.#tickets.length + this.#counts.length >= batchSize) await this.#deleteBatch();
    }
    await this.#deleteBatch();
    return { deleted: this.#deleted, kept: this.#kept };
  }

  #add({ name, metadata, properties }: BlobItemLike): void {
    const { lastModified, etag, contentLength, leaseState } = properties;
    if (!lastModified || lastModified.getTime() > this.#olderThan || etag === undefined) return;
    const blob: ListedBlob = { name, etag: quoted(etag) };
    if (isTicketBlob(name, metadata) && lockNameOf(this.#prefix, lockBlobOf(name)) !== undefined) {
      this.#tickets.push(blob);
      return;
    }
    if (isCountRecord(name, metadata) && lockNameOf(this.#prefix, countedBlobOf(name)) !== undefined) {
      this.#counts.push(blob);
      return;
    }
    const record = parseLockRecord(metadata);
    // Blobs of other programs may be in the container, too: only an empty blob with the record of a lock, or of readers that died, is
    // deleted. The blob of a table lock has content, which says how the table is locked.
    if (lockNameOf(this.#prefix, name) === undefined || (record.epoch === 0 && !isReader(record)) || contentLength !== 0) return;
    const lastEpoch = nextEpoch(record) - 1;
    if (leaseState === "leased" || leaseState === "breaking" || isLaterMetadata(metadata) || mayGuard(record) || lastEpoch > maxEpoch) this.#kept++;
    else this.#locks.push({ ...blob, lastEpoch });
  }

  async #deleteBatch(): Promise<void> {
    const [locks, tickets, counts] = [this.#locks, this.#tickets, this.#counts];
    this.#locks = [];
    this.#tickets = [];
    this.#counts = [];
    if (locks.length > 0) await this.#floor.raise(Math.max(...locks.map(({ lastEpoch }) => lastEpoch)), this.#call);
    await inParallel(locks, parallelDeletes, async (lock) => {
      const outcome = await this.#delete(lock);
      if (outcome === "deleted") this.#deleted++;
      else if (outcome === "kept") this.#kept++;
    });
    // After the locks, which come before their tickets in the listing. The tickets of a lock that still exists are kept: counting
    // from 1 again, its waiters would come out of order for a while.
    await inParallel(tickets, parallelDeletes, async (blob) => {
      if (!(await this.#exists(lockBlobOf(blob.name)))) await this.#delete(blob);
    });
    // Of a semaphore without any slot, or a balancer without shards and members. Those that come later in the listing keep it until the next purge.
    await inParallel(counts, parallelDeletes, async (blob) => {
      if (!(await this.#hasLocks(countedBlobOf(blob.name)))) await this.#delete(blob);
    });
  }

  async #delete({ name, etag }: ListedBlob): Promise<"deleted" | "kept" | "gone"> {
    const send = (signal: AbortSignal): Promise<unknown> =>
      this.#container.getBlockBlobClient(name).delete({ ...this.#options(signal), conditions: { ifMatch: etag } });
    const sent = await request(send, { timeoutInMs, abortSignal: this.#call.abortSignal });
    if (sent.kind === "ok") return "deleted";
    const { error, sends } = sent;
    throwIfAborted(this.#call.abortSignal);
    // The response to a re-send of the SDK: the first send has deleted it.
    if (isNotFound(error)) return sends > 1 ? "deleted" : "gone";
    if (!isDefinitive(error) || isUnauthorized(error) || isParentNotFound(error)) throw error;
    // It is in use, or was used since the listing; or a snapshot or a policy of the account prevents the delete.
    logger.verbose(`${redactUrl(this.#container.url)}: a lock was not deleted: ${errorLabel(error)}`);
    return "kept";
  }

  async #exists(name: string): Promise<boolean> {
    const { abortSignal } = this.#call;
    try {
      await read((signal) => this.#container.getBlockBlobClient(name).getProperties(this.#options(signal)), { timeoutInMs, abortSignal });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  async #hasLocks(blob: string): Promise<boolean> {
    const { abortSignal, tracingOptions } = this.#call;
    const request = { prefix: countedPrefixOf(blob), ...(tracingOptions && { tracingOptions }) };
    for await (const _ of iterate((signal) => this.#container.listBlobsFlat({ ...request, abortSignal: signal }), { abortSignal, timeoutInMs })) return true;
    return false;
  }

  #options(abortSignal: AbortSignal): BlobCallOptions {
    const { tracingOptions } = this.#call;
    return { abortSignal, ...(tracingOptions && { tracingOptions }) };
  }
}

/**
 * Whether a holder of this crash guard may have left a lease behind that never expires: its successor finds out by the record
 * which ids that lease can have. Without the record no client could take it over.
 */
function mayGuard(record: LockRecord): boolean {
  return record.lowestGuarding !== undefined && record.lowestGuarding < nextEpoch(record);
}

/** Of the processes that read under a {@link ReaderWriterLock}: they have no epochs, and delete their blob themselves unless they die. */
function isReader({ epoch, holder }: LockRecord): boolean {
  return epoch === 0 && holder !== undefined;
}

/** The service lists ETags without the quotes that a condition has. */
function quoted(etag: string): string {
  return etag.startsWith('"') ? etag : `"${etag}"`;
}
