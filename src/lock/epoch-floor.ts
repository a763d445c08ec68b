import type { BlobCallOptions, ContainerLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import { read } from "../core/request.js";
import { fullJitter, retry } from "../core/retry.js";
import { isConflict, isNotFound, isTransient } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import { fromPrimary } from "../target/content.js";

const metadataName = "asc_floor";
const timeoutInMs = 5_000;
/** Several purges at once raise it one after the other. */
const maxAttempts = 20;

/**
 * The largest epoch that any deleted lock of a prefix has had. A purge raises it before it deletes a lock, and a lock without a
 * record starts above it: so the epochs of a name grow, even if they ran ahead of the clock, or the clock of a process is slow.
 *
 * Both sides agree without a lock of their own: the new blob was created after the old one was deleted, and that was after the
 * floor was raised. So a process that finds no record, and reads the floor after that, finds it raised.
 */
export class EpochFloor {
  readonly #blob: ReturnType<ContainerLike["getBlockBlobClient"]>;

  constructor(container: ContainerLike, prefix: string) {
    // A dot is never part of an encoded lock name, so the name is not that of a lock.
    this.#blob = container.getBlockBlobClient(`${prefix}.floor`);
  }

  /** 0 if no lock was ever deleted. Read from the primary: nothing else would notice that an old value was used. */
  async read({ tracingOptions, onRequest }: Omit<LeaseRequest, "abortSignal">): Promise<number> {
    onRequest?.();
    const send = (abortSignal: AbortSignal): Promise<Stored | undefined> => this.#read({ abortSignal, ...(tracingOptions && { tracingOptions }) });
    return (await read(send, { timeoutInMs }))?.floor ?? 0;
  }

  /** Resolves when the floor is at least `epoch`. It never becomes lower: each write is conditional on what was read. */
  async raise(epoch: number, { abortSignal, tracingOptions }: CallOptions): Promise<void> {
    const call = (signal: AbortSignal): BlobCallOptions => ({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    const attempt = async (): Promise<void> => {
      const stored = await read((signal) => this.#read(call(signal)), { timeoutInMs, abortSignal });
      if (stored && stored.floor >= epoch) return;
      await read((signal) => this.#write(epoch, stored?.etag, call(signal)), { timeoutInMs, abortSignal });
    };
    // Also after a write whose outcome is unknown: the next attempt reads first.
    const shouldRetry = (error: unknown): boolean => isConflict(error) || isNotFound(error) || isTransient(error);
    await retry(attempt, { maxAttempts, shouldRetry, backoff: (failures) => fullJitter(failures, 20, 2_000), abortSignal });
  }

  async #read(options: BlobCallOptions): Promise<Stored | undefined> {
    try {
      const { metadata, etag } = await fromPrimary(this.#blob, { primaryOnly: true }, this.#blob.getProperties(options));
      const text = Object.entries(metadata ?? {}).find(([name]) => name.toLowerCase() === metadataName)?.[1];
      const floor = Number(text);
      return { floor: text !== undefined && Number.isSafeInteger(floor) ? floor : 0, etag: requireETag(etag, redactUrl(this.#blob.url)) };
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #write(floor: number, ifMatch: string | undefined, options: BlobCallOptions): Promise<void> {
    const metadata = { [metadataName]: String(floor) };
    if (ifMatch === undefined) await this.#blob.upload(new Uint8Array(0), 0, { ...options, metadata, conditions: { ifNoneMatch: "*" } });
    else await this.#blob.setMetadata(metadata, { ...options, conditions: { ifMatch } });
  }
}

interface Stored {
  readonly floor: number;
  readonly etag: string;
}
