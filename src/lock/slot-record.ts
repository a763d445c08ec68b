import type { BlobCallOptions, BlockBlobLike } from "../clients/blob.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isAlreadyExists, isNotFound } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { createError, LockModeMismatchError } from "../errors.js";

/** A semaphore can be used without its record: callers do not wait for it for longer. */
const timeoutInMs = 1_000;
/** If the record could not be read, it is read again after this time. */
const checkAgainAfterInMs = 30_000;
/** A process that waits says so this often; a process that hands its slots over looks this often. */
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
    this.#inBackground(async (abortSignal) => {
      const metadata = { [names.slots]: String(this.#slots), [names.waiter]: this.#self };
      const { etag } = await this.#blob.setMetadata(metadata, { abortSignal });
      this.#etag = etag;
    });
  }

  /** Whether another process has said lately that it waits. Looks in the background, for the next call. */
  othersWait(): boolean {
    if (!this.#sinceLook || this.#sinceLook() >= lookEveryInMs) {
      this.#sinceLook = startStopwatch();
      this.#inBackground(async (abortSignal) => {
        const { etag, metadata } = await this.#blob.getProperties({ abortSignal });
        const before = this.#etag;
        this.#etag = etag;
        // At the first look, it is not known how long ago the record was written.
        if (before !== undefined && before !== etag && valueOf(metadata, names.waiter) !== this.#self) this.#sinceOthers = startStopwatch();
      });
    }
    return this.#sinceOthers !== undefined && this.#sinceOthers() < believeForInMs;
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
      await this.#send(options, (more) => this.#blob.upload(new Uint8Array(0), 0, { ...more, metadata, conditions: { ifNoneMatch: "*" } }));
      return undefined;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return found();
    }
  }

  #send<R>(options: BlobCallOptions, send: (options: BlobCallOptions) => Promise<R>): Promise<R> {
    return read((abortSignal) => send({ ...options, abortSignal }), { timeoutInMs, abortSignal: options.abortSignal });
  }

  #inBackground(send: (abortSignal: AbortSignal) => Promise<void>): void {
    read(send, { timeoutInMs }).catch((error: unknown) => logger.verbose(`the record of the semaphore ${this.#name}: ${errorLabel(error)}`));
  }
}

function valueOf(metadata: Record<string, string> | undefined, name: string): string | undefined {
  return Object.entries(metadata ?? {}).find(([key]) => key.toLowerCase() === name)?.[1];
}
