import type { BlobCallOptions, BlockBlobLike } from "../clients/blob.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isAlreadyExists, isConflict, isNotFound } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { createError, LockModeMismatchError } from "../errors.js";

/** A semaphore can be used without its record: callers do not wait for it for longer. */
const timeoutInMs = 1_000;
/** If the record could not be read, it is read again after this time. */
const checkAgainAfterInMs = 30_000;
/** A process that waits says so this often; a process that hands its slots over looks at most this often. */
const announceEveryInMs = 2_000;
const lookEveryInMs = 500;
/** After a process was seen to wait, others count on it for this long: it may have had no reason to say so again. */
const believeForInMs = 1.5 * announceEveryInMs;

const names = { slots: "asc_slots", waiter: "asc_waiter" };
const suffix = ".slots";

/** Whether this blob of a listing is the record of a semaphore. */
export function isSlotRecord(blobName: string, metadata: Readonly<Record<string, string>> | undefined): boolean {
  return blobName.endsWith(suffix) && Object.keys(metadata ?? {}).some((name) => name.toLowerCase() === names.slots);
}

/** The name that the blobs of its slots begin with, see {@link slotPrefixOf}. */
export function semaphoreBlobOf(record: string): string {
  return record.slice(0, -suffix.length);
}

/** What the encoded names of the slots of a semaphore begin with: `name/`. */
export function slotPrefixOf(semaphoreBlob: string): string {
  return `${semaphoreBlob}~2F`;
}

/**
 * What the processes that use a semaphore have to know of each other: the number of its slots, and whether a process waits for
 * one. It is stored in the metadata of a blob of its own. Each process reads it once, and again only while the semaphore is full.
 */
export class SlotRecord {
  readonly #blob: BlockBlobLike;
  readonly #name: string;
  readonly #slots: number;
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
  }

  /** Whether the number of slots is known to be right, or cannot be found out now. */
  get isChecked(): boolean {
    return this.#isChecked || (this.#sinceFailure !== undefined && this.#sinceFailure() < checkAgainAfterInMs);
  }

  /** The first process records the number of slots, all others compare theirs. Rejects if it differs. Costs 1 request. */
  async check(options: BlobCallOptions): Promise<void> {
    let found: string | undefined;
    try {
      found = await this.#readOrCreate(options);
    } catch (error) {
      // The slots are blobs of their own: one blob that hangs or is forbidden must not keep them from being used.
      logger.verbose(`the number of slots of ${this.#name} could not be checked: ${errorLabel(error)}`);
      if (!options.abortSignal?.aborted) this.#sinceFailure = startStopwatch();
      return;
    }
    if (found === String(this.#slots) || found === undefined) {
      this.#isChecked = true;
      return;
    }
    throw createError(
      LockModeMismatchError,
      `The semaphore ${this.#name} has ${found} slots, and this process uses it with ${this.#slots}. Use the same number everywhere. ` +
        `To change it, stop all users, and delete ${redactUrl(this.#blob.url)}.`,
      { url: redactUrl(this.#blob.url), setting: "slots", expected: String(this.#slots), found },
    );
  }

  /** Tells the processes that hold the slots that this one waits for one. Not awaited: it only affects the order. */
  announce(): void {
    if (this.#sinceAnnounced && this.#sinceAnnounced() < announceEveryInMs) return;
    this.#sinceAnnounced = startStopwatch();
    void this.#inBackground(async (abortSignal) => {
      const metadata = { [names.slots]: String(this.#slots), [names.waiter]: this.#self };
      const ifMatch = this.#etag;
      try {
        const { etag } = await this.#blob.setMetadata(metadata, { abortSignal, ...(ifMatch !== undefined && { conditions: { ifMatch } }) });
        this.#etag = etag;
      } catch (error) {
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
    const { etag, metadata } = await this.#blob.getProperties({ abortSignal });
    const before = this.#etag;
    this.#etag = etag;
    // At the first look, it is not known how long ago the record was written.
    if (before !== undefined && before !== etag && valueOf(metadata, names.waiter) !== this.#self) this.#sinceOthers = startStopwatch();
  }

  async #readOrCreate(options: BlobCallOptions): Promise<string | undefined> {
    const found = (): Promise<string | undefined> => this.#send(options, async (more) => {
      const { etag, metadata } = await this.#blob.getProperties(more);
      this.#etag = etag;
      return valueOf(metadata, names.slots);
    });
    try {
      return await found();
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    const metadata = { [names.slots]: String(this.#slots) };
    try {
      const { etag } = await this.#send(options, (more) => this.#blob.upload(new Uint8Array(0), 0, { ...more, metadata, conditions: { ifNoneMatch: "*" } }));
      this.#etag = etag;
      return undefined;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return found();
    }
  }

  #send<R>(options: BlobCallOptions, send: (options: BlobCallOptions) => Promise<R>): Promise<R> {
    return read((abortSignal) => send({ ...options, abortSignal }), { timeoutInMs, abortSignal: options.abortSignal });
  }

  /** Never rejects: the order of processes depends on it, and nothing else. */
  #inBackground(send: (abortSignal: AbortSignal) => Promise<void>): Promise<void> {
    return read(send, { timeoutInMs }).catch((error: unknown) => logger.verbose(`the record of the semaphore ${this.#name}: ${errorLabel(error)}`));
  }
}

function valueOf(metadata: Record<string, string> | undefined, name: string): string | undefined {
  return Object.entries(metadata ?? {}).find(([key]) => key.toLowerCase() === name)?.[1];
}
