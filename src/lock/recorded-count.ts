import type { BlobCallOptions, BlockBlobLike } from "../clients/blob.js";
import { read } from "../core/request.js";
import { isAlreadyExists, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { createError, LockModeMismatchError } from "../errors.js";

/** The name of the count in the metadata, for all kinds. */
export const countName = "asc_slots";

/** What is counted: the kind of the side blob, which is the setting that differs, and the words of its error. */
const kinds = { slots: "semaphore", shards: "work balancer" } as const;

/** Whether this blob of a listing records a count. */
export function isCountRecord(blobName: string, metadata: Readonly<Record<string, string>> | undefined): boolean {
  return Object.keys(kinds).some((kind) => blobName.endsWith(`.${kind}`)) && metadataValue(metadata, countName) !== undefined;
}

/** The name that the blobs of what it counts begin with, see {@link countedPrefixOf}. */
export function countedBlobOf(record: string): string {
  return record.slice(0, record.lastIndexOf("."));
}

/** What the encoded names of the locks that are counted begin with: `name/`. */
export function countedPrefixOf(blob: string): string {
  return `${blob}~2F`;
}

/** How many locks a semaphore or a balancer consists of: its users must agree on it. It is stored in the metadata of a blob of its own. */
export class RecordedCount {
  readonly #blob: BlockBlobLike;
  readonly #kind: keyof typeof kinds;
  readonly #name: string;
  readonly #count: number;

  constructor(blob: BlockBlobLike, kind: keyof typeof kinds, name: string, count: number) {
    this.#blob = blob;
    this.#kind = kind;
    this.#name = name;
    this.#count = count;
  }

  /**
   * The first process records the count, all others get the one that is recorded. Undefined: there is none, or it is not readable as one.
   * Costs 1 request, or 2 if it is the first.
   */
  async readOrCreate(timeoutInMs: number, options: BlobCallOptions): Promise<{ readonly found: string | undefined; readonly etag: string | undefined }> {
    const send = <R>(request: (options: BlobCallOptions) => Promise<R>): Promise<R> =>
      read((abortSignal) => request({ ...options, abortSignal }), { timeoutInMs, abortSignal: options.abortSignal });
    const recorded = (): Promise<{ found: string | undefined; etag: string | undefined }> => send(async (more) => {
      const { etag, metadata } = await this.#blob.getProperties(more);
      return { found: metadataValue(metadata, countName), etag };
    });
    try {
      return await recorded();
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    const metadata = { [countName]: String(this.#count) };
    try {
      const { etag } = await send((more) => this.#blob.upload(new Uint8Array(0), 0, { ...more, metadata, conditions: { ifNoneMatch: "*" } }));
      return { found: undefined, etag };
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return recorded();
    }
  }

  /** Throws if another count is recorded than that of this process. */
  compare(found: string | undefined): void {
    if (found === String(this.#count) || found === undefined) return;
    const url = redactUrl(this.#blob.url);
    throw createError(
      LockModeMismatchError,
      `The ${kinds[this.#kind]} ${this.#name} has ${found} ${this.#kind}, and this process uses it with ${this.#count}. Use the same number everywhere. ` +
        `To change it, stop all users, and delete ${url}.`,
      { url, setting: this.#kind, expected: String(this.#count), found },
    );
  }
}

export function metadataValue(metadata: Readonly<Record<string, string>> | undefined, name: string): string | undefined {
  return Object.entries(metadata ?? {}).find(([key]) => key.toLowerCase() === name)?.[1];
}
