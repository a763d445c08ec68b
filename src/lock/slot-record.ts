import type { BlobCallOptions, BlockBlobLike } from "../clients/blob.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isConflict, isNotFound } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { countName, metadataValue, RecordedCount } from "./recorded-count.js";

/** A semaphore can be used without its record: callers do not wait for it for longer. */
const timeoutInMs = 1_000;
/** If the record could not be read, it is read again after this time. */
const checkAgainAfterInMs = 30_000;
/** A process that waits says so this often; a process that hands its slots over looks at most this often. */
const announceEveryInMs = 2_000;
const lookEveryInMs = 500;
/** After a process was seen to wait, others count on it for this long: it may have had no reason to say so again. */
const believeForInMs = 1.5 * announceEveryInMs;

const waiterName = "asc_waiter";

/**
 * What the processes that use a semaphore have to know of each other: the number of its slots, and whether a process waits for
 * one. It is stored in the metadata of a blob of its own. Each process reads it once, and again only while the semaphore is full.
 */
export class SlotRecord {
  readonly #blob: BlockBlobLike;
  readonly #name: string;
  readonly #slots: number;
  readonly #count: RecordedCount;
  /** Identifies this process among those that wait. */
  readonly #self = crypto.randomUUID();
  #isChecked = false;
  #sinceFailure: Clock | undefined;
  #sinceAnnounced: Clock | undefined;
  #sinceLook: Clock | undefined;
  #sinceOthers: Clock | undefined;
  #etag: string | undefined;

  constructor(blob: BlockBlobLike, name: string, slots: number) {
    this.#blob = blob;
    this.#name = name;
    this.#slots = slots;
    this.#count = new RecordedCount(blob, "slots", name, slots);
  }

  /** Whether the number of slots is known to be right, or cannot be found out now. */
  get isChecked(): boolean {
    return this.#isChecked || (this.#sinceFailure !== undefined && this.#sinceFailure() < checkAgainAfterInMs);
  }

  /** The first process records the number of slots, all others compare theirs. Rejects if it differs. Costs 1 request. */
  async check(options: BlobCallOptions): Promise<void> {
    let found: string | undefined;
    try {
      const recorded = await this.#count.readOrCreate(timeoutInMs, options);
      this.#etag = recorded.etag;
      found = recorded.found;
    } catch (error) {
      // The slots are blobs of their own: one blob that hangs or is forbidden must not keep them from being used.
      logger.verbose(`the number of slots of ${this.#name} could not be checked: ${errorLabel(error)}`);
      if (!options.abortSignal?.aborted) this.#sinceFailure = startStopwatch();
      return;
    }
    this.#count.compare(found);
    this.#isChecked = true;
  }

  /** Tells the processes that hold the slots that this one waits for one. Not awaited: it only affects the order. */
  announce(): void {
    if (this.#sinceAnnounced && this.#sinceAnnounced() < announceEveryInMs) return;
    this.#sinceAnnounced = startStopwatch();
    void this.#inBackground(async (abortSignal) => {
      const metadata = { [countName]: String(this.#slots), [waiterName]: this.#self };
      const ifMatch = this.#etag;
      try {
        const { etag } = await this.#blob.setMetadata(metadata, { abortSignal, ...(ifMatch !== undefined && { conditions: { ifMatch } }) });
        this.#etag = etag;
      } catch (error) {
        if (isNotFound(error)) return this.#createAgain(abortSignal);
        if (!isConflict(error)) throw error;
        // Another process has said that it waits: this one, which may hold slots as well, must not overwrite that unseen.
        await this.#lookForOthers(abortSignal);
      }
    });
  }

  /** Whether another process has said that it waits: lately, or since the last call. Never rejects. Costs at most one request every half second. */
  async othersWait(): Promise<boolean> {
    if (!this.#sinceLook || this.#sinceLook() >= lookEveryInMs) {
      this.#sinceLook = startStopwatch();
      // Awaited: what was seen when the last slot was released may be too old to count.
      await this.#inBackground((abortSignal) => this.#lookForOthers(abortSignal));
    }
    return this.#sinceOthers !== undefined && this.#sinceOthers() < believeForInMs;
  }

  async #lookForOthers(abortSignal: AbortSignal): Promise<void> {
    const stored = await this.#blob.getProperties({ abortSignal }).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
    if (!stored) return this.#createAgain(abortSignal);
    const { etag, metadata } = stored;
    const before = this.#etag;
    this.#etag = etag;
    // At the first look, it is not known how long ago the record was written.
    if (before !== undefined && before !== etag && metadataValue(metadata, waiterName) !== this.#self) this.#sinceOthers = startStopwatch();
  }

  /** A purge has deleted it while no slot was used: without it, processes that wait cannot say so, and those that have slots would keep them. */
  async #createAgain(abortSignal: AbortSignal): Promise<void> {
    const { found, etag } = await this.#count.readOrCreate(timeoutInMs, { abortSignal });
    this.#etag = etag;
    // The next caller is told if another process has used another number first.
    this.#isChecked = found === undefined || found === String(this.#slots);
    this.#sinceAnnounced = undefined;
  }

  /** Never rejects: the order of processes depends on it, and nothing else. */
  #inBackground(send: (abortSignal: AbortSignal) => Promise<void>): Promise<void> {
    return read(send, { timeoutInMs }).catch((error: unknown) => logger.verbose(`the record of the semaphore ${this.#name}: ${errorLabel(error)}`));
  }
}
