import type { AppendBlobLike } from "../clients/blob.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import { endIfSilent, read } from "../core/request.js";
import { retry } from "../core/retry.js";
import { isAlreadyExists, isBlockCountExceeded, isNotFound } from "../core/storage-errors.js";

/** The limit of the service: an append blob has at most so many blocks. The next tickets come from another blob. */
export const ticketsPerBlob = 50_000;

/** Longer than the SDK waits before its third send: a draw that is given up although it was carried out leaves a ticket behind. */
const drawTimeoutInMs = 20_000;
/** If the SDK does not even send again, no response will come. A ticket that was drawn nevertheless delays the waiters by half a second. */
const responseTimeoutInMs = 5_000;
/** How often an append is attempted, if the blob does not exist. */
const maxAttempts = 5;
const oneByte = new Uint8Array(1);
/** Tells the blob from those of other programs, of which none may be deleted. */
const metadata = { asc_tickets: "1" };
const suffix = /\.tickets(-\d+)?$/;

/** The name of the blob of each generation. A dot is never part of an encoded lock name, so the name is not that of another lock. */
export function ticketBlobName(lockBlob: string, generation: number): string {
  return `${lockBlob}.tickets${generation === 0 ? "" : `-${generation}`}`;
}

/** Whether tickets are drawn from this blob of a listing. */
export function isTicketBlob(name: string, found: Readonly<Record<string, string>> | undefined): boolean {
  return suffix.test(name) && Object.keys(found ?? {}).some((key) => key.toLowerCase() === "asc_tickets");
}

/** The name of the blob of the lock for which tickets are drawn from this one. */
export function lockBlobOf(ticketBlob: string): string {
  return ticketBlob.replace(suffix, "");
}

/**
 * Numbers for processes that wait for the same lock. The service counts the blocks of an append blob, and returns the count with
 * each append: one request draws a number that no other process gets. The order is cooperative. A number that is drawn and never
 * used, or a blob that is deleted, costs time, never exclusion: that depends on the lease alone.
 */
export class TicketDispenser {
  readonly #blob: (generation: number) => AppendBlobLike;
  #generation = 0;

  /** @param blob - The blob of each generation: a new one for every 50,000 tickets. */
  constructor(blob: (generation: number) => AppendBlobLike) {
    this.#blob = blob;
  }

  /** Draws the next ticket. `served`: the last one that was served, as far as this process knows. */
  async draw(served: number | undefined, abortSignal: AbortSignal, request: Omit<LeaseRequest, "abortSignal">): Promise<number> {
    this.#startFrom(served);
    for (;;) {
      try {
        return await this.#append(abortSignal, request);
      } catch (error) {
        if (!isBlockCountExceeded(error)) throw error;
        this.#generation++;
      }
    }
  }

  /** The last ticket that was drawn; 0 if none was. */
  async last(served: number | undefined, abortSignal: AbortSignal | undefined, request: Omit<LeaseRequest, "abortSignal">): Promise<number> {
    this.#startFrom(served);
    const generation = this.#generation;
    try {
      const { blobCommittedBlockCount = 0 } = await this.#send(responseTimeoutInMs, abortSignal, request, (options) => this.#blob(generation).getProperties(options));
      return generation * ticketsPerBlob + blobCommittedBlockCount;
    } catch (error) {
      if (isNotFound(error)) return generation * ticketsPerBlob;
      throw error;
    }
  }

  /** Counting has begun anew, after `served` tickets. */
  startAnew(served: number): void {
    this.#generation = Math.floor(served / ticketsPerBlob);
  }

  #startFrom(served: number | undefined): void {
    this.#generation = Math.max(this.#generation, Math.floor((served ?? 0) / ticketsPerBlob));
  }

  async #append(abortSignal: AbortSignal, request: Omit<LeaseRequest, "abortSignal">): Promise<number> {
    const generation = this.#generation;
    const blob = this.#blob(generation);
    const append = (): Promise<{ blobCommittedBlockCount?: number | undefined }> =>
      this.#send(drawTimeoutInMs, abortSignal, request, (options) => blob.appendBlock(oneByte, 1, options));
    const create = (): Promise<unknown> =>
      this.#send(drawTimeoutInMs, abortSignal, request, (options) => blob.create({ ...options, metadata, conditions: { ifNoneMatch: "*" } })).catch((error: unknown) => {
        if (!isAlreadyExists(error)) throw error;
      });
    // A purge may delete the blob between its creation and the append.
    const shouldRetry = (error: unknown): boolean => isNotFound(error);
    const { blobCommittedBlockCount } = await retry((attempt) => (attempt === 1 ? append() : create().then(append)), { maxAttempts, shouldRetry, abortSignal });
    if (blobCommittedBlockCount === undefined) throw new TypeError(`The response to an append to ${blob.url} has no count of blocks`);
    return generation * ticketsPerBlob + blobCommittedBlockCount;
  }

  #send<R>(
    timeoutInMs: number,
    abortSignal: AbortSignal | undefined,
    { onRequest, tracingOptions }: Omit<LeaseRequest, "abortSignal">,
    send: (options: { abortSignal: AbortSignal; tracingOptions?: NonNullable<LeaseRequest["tracingOptions"]> }) => Promise<R>,
  ): Promise<R> {
    onRequest?.();
    const call = (signal: AbortSignal): Promise<R> => send({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    return read((signal) => endIfSilent(call, signal, responseTimeoutInMs), { timeoutInMs, abortSignal });
  }
}
