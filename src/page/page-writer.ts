import type { BlobCallOptions, PageBlobLike, PageWriteOptions } from "../clients/blob.js";
import type { TimedCallOptions } from "../clients/call.js";
import { read, request } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isDefinitive, isSequenceConflict, toConcurrencyError } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { checkNumber, checkOptions, requireETag } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, FencedError } from "../errors.js";
import { blobOptions } from "../target/blob-requests.js";
import type { RequestContext } from "../target/target.js";
import { checkTargetSettings } from "../update/options.js";
import type { LeaseCondition } from "../update/options.js";
import { runCall } from "../update/run-call.js";

/** Options of {@link claimPages}. */
export interface ClaimPagesOptions extends TimedCallOptions {
  /** The lease that the caller holds on the blob, sent with the claim and with every write of the writer. @defaultValue none */
  conditions?: LeaseCondition | undefined;
}

const claimNames: OptionNames<ClaimPagesOptions> = { abortSignal: 1, tracingOptions: 1, timeoutInMs: 1, tryTimeoutInMs: 1, conditions: 1 };
const writeNames: OptionNames<TimedCallOptions> = { abortSignal: 1, tracingOptions: 1, timeoutInMs: 1, tryTimeoutInMs: 1 };

/**
 * Writes pages as long as no other writer has claimed the blob: every request carries the sequence number, and the service
 * rejects it if the blob has another one. The result of {@link claimPages}.
 */
export interface PageWriter {
  /** The sequence number under which this writer writes. Grows after lost responses. */
  readonly sequenceNumber: number;
  /**
   * Writes whole pages. Costs 1 request for each 4 MiB, one after the other; a reader may see some of them before the others.
   * Offset and length must be multiples of 512.
   * @throws {@link FencedError} if another writer has claimed the blob.
   * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
   */
  write(offset: number, data: Uint8Array, options?: TimedCallOptions): Promise<void>;
  /**
   * Sets pages to zero. Costs 1 request.
   * @throws {@link FencedError} if another writer has claimed the blob.
   * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
   */
  clear(offset: number, count: number, options?: TimedCallOptions): Promise<void>;
}

/**
 * Takes over a page blob: raises its sequence number, and returns a writer whose writes carry the new number. From then on the
 * service rejects the writes of earlier writers, including those in flight; they get a `FencedError`.
 *
 * Costs 1 request. The last caller wins; the application decides which process calls (by a lease, an election).
 *
 * @example
 * ```ts
 * const writer = await claimPages(container.getPageBlobClient("disk"));
 * await writer.write(0, new Uint8Array(512));
 * ```
 * @throws {@link TargetNotFoundError} if the blob does not exist.
 * @throws {@link LeaseUnavailableError} if another client has leased it.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
 */
export async function claimPages(blob: PageBlobLike, options: ClaimPagesOptions = {}): Promise<PageWriter> {
  checkOptions("claimPages", options, claimNames);
  const settings = checkTargetSettings({ conditions: options.conditions });
  if (!isPageBlob(blob)) throw new TypeError("claimPages needs a PageBlobClient.");
  const url = redactUrl(blob.url);
  return runCall("claimPages", options, settings, url, async (context) => {
    try {
      // The service increments atomically: no two requests get the same number. If a response is lost and the SDK sends the
      // request again, a number is skipped, which is harmless.
      const { blobSequenceNumber } = await blob.updateSequenceNumber("increment", undefined, blobOptions(context));
      if (blobSequenceNumber === undefined) throw new TypeError(`The response for ${url} has no sequence number.`);
      return new FencedPageWriter(blob, blobSequenceNumber, settings.leaseId);
    } catch (error) {
      throw toConcurrencyError(error, url, "create it first");
    }
  });
}

function isPageBlob(blob: unknown): blob is PageBlobLike {
  const client = blob as Partial<PageBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.uploadPages === "function" && typeof client.updateSequenceNumber === "function";
}

/** How often the writer tries to raise its number while other clients change the blob. */
const maxRaises = 10;

/**
 * Writing the same bytes to the same pages twice is harmless, so a lost response costs nothing, with one exception: a send
 * that was abandoned may arrive late, and overwrite a newer write to the same pages. So after a write that was sent more than
 * once or got no response, the writer raises its own number before it writes again: sends that are still in flight are then
 * rejected.
 */
class FencedPageWriter implements PageWriter {
  readonly #blob: PageBlobLike;
  readonly #url: string;
  readonly #leaseId: string | undefined;
  #number: number;
  #fenced: FencedError | undefined;
  /** A request that was sent under the current number may still be in flight. */
  #mayBeInFlight = false;
  /** What the number is being raised to. Kept if a call gives up, because its raise may have been committed. */
  #raised: number | undefined;
  #raising: { readonly by: RequestContext; readonly done: Promise<void> } | undefined;

  constructor(blob: PageBlobLike, sequenceNumber: number, leaseId: string | undefined) {
    this.#blob = blob;
    this.#url = redactUrl(blob.url);
    this.#number = sequenceNumber;
    this.#leaseId = leaseId;
  }

  get sequenceNumber(): number {
    return this.#number;
  }

  write(offset: number, data: Uint8Array, options: TimedCallOptions = {}): Promise<void> {
    return this.#run("PageWriter.write", options, async (context) => {
      if (!(data instanceof Uint8Array)) throw new TypeError("PageWriter.write: data must be a Uint8Array.");
      checkPages(offset, data.length);
      const bytes = new Uint8Array(data); // the caller may reuse its buffer
      for (let at = 0; at < bytes.length; at += maxPagesInBytes) {
        const part = bytes.subarray(at, at + maxPagesInBytes);
        await this.#send(context, (request) => this.#blob.uploadPages(part, offset + at, part.length, request));
      }
    });
  }

  clear(offset: number, count: number, options: TimedCallOptions = {}): Promise<void> {
    return this.#run("PageWriter.clear", options, (context) => {
      checkPages(offset, count);
      return this.#send(context, (request) => this.#blob.clearPages(offset, count, request));
    });
  }

  async #run(name: string, options: TimedCallOptions, work: (context: RequestContext) => Promise<void>): Promise<void> {
    checkOptions(name, options, writeNames);
    const settings = checkTargetSettings(this.#leaseId === undefined ? {} : { conditions: { leaseId: this.#leaseId } });
    await runCall(name, options, settings, this.#url, work);
  }

  async #send(context: RequestContext, write: (options: PageWriteOptions) => Promise<unknown>): Promise<void> {
    for (;;) {
      if (this.#fenced) throw this.#fenced;
      if ((this.#mayBeInFlight || this.#raising) && !(await this.#raise(context))) continue;
      const number = this.#number;
      const sent = await request((abortSignal) => write(withNumber(blobOptions({ ...context, abortSignal }), number)), context);
      if (sent.sends !== 1 || (sent.kind !== "ok" && !isDefinitive(sent.error))) this.#mayBeInFlight = true;
      if (sent.kind === "ok") return;
      const { error } = sent;
      if (!isSequenceConflict(error)) throw toConcurrencyError(error, this.#url, "");
      // Another write of this writer has raised the number meanwhile: send again with the new number.
      if (number === this.#number && !this.#raising) throw await this.#readFence(context, error, sent.sends);
    }
  }

  /** Raises the number once for all writes that wait for it. False: the write that started the raise has failed; try again. */
  async #raise(context: RequestContext): Promise<boolean> {
    const raising = (this.#raising ??= { by: context, done: this.#raiseNumber(context).finally(() => (this.#raising = undefined)) });
    try {
      await read(() => raising.done, context);
      return true;
    } catch (error) {
      if (raising.by === context || this.#fenced || context.abortSignal.aborted) throw error;
      return false;
    }
  }

  async #raiseNumber(context: RequestContext): Promise<void> {
    // A random step, so that this raise is recognised if its response is lost: a claim adds 1.
    const raised = (this.#raised ??= this.#number + 2 + Math.floor(Math.random() * 2 ** 30));
    let found: PageBlobState | undefined;
    const raiseOnce = async (): Promise<void> => {
      const base = found ?? (await this.#readState(context));
      if (base.number === raised) return;
      if (base.number !== this.#number) throw this.#fence(base.number, undefined);
      const outcome = await resolveWrite<unknown, PageBlobState>(
        {
          send: (abortSignal) => this.#blob.updateSequenceNumber("update", raised, blobOptions({ ...context, abortSignal }, { ifMatch: base.etag })),
          readBack: () => this.#readState(context),
          recognise: (state) => (state.number === raised ? "committed" : state.etag === base.etag ? "unchanged" : "not committed"),
          onConflict: () => 0,
        },
        { abortSignal: context.abortSignal },
      );
      if (outcome.kind === "committed" || outcome.kind === "recognised") return;
      found = outcome.kind === "conflict" ? outcome.found : undefined;
      throw new RaiseFailedError(outcome.kind === "conflict", outcome.error);
    };
    const shouldRetry = (error: unknown): boolean => error instanceof RaiseFailedError && error.conflict;
    try {
      await retry(raiseOnce, { maxAttempts: maxRaises, shouldRetry, abortSignal: context.abortSignal });
    } catch (error) {
      throw error instanceof RaiseFailedError ? error.cause : error;
    }
    this.#number = raised;
    this.#raised = undefined;
    this.#mayBeInFlight = false;
  }

  async #readState(context: RequestContext): Promise<PageBlobState> {
    const { etag, blobSequenceNumber = 0 } = await this.#blob.getProperties(blobOptions(context));
    return { etag: requireETag(etag, this.#url), number: blobSequenceNumber };
  }

  async #readFence(context: RequestContext, cause: unknown, sends: number): Promise<FencedError> {
    const { number } = await this.#readState(context);
    return this.#fence(number, cause, sends === 1 ? "Nothing was written." : "A try before that may have been written.");
  }

  #fence(fencedBy: number, cause: unknown, effect = "Nothing was written."): FencedError {
    const message = `Another writer has claimed ${this.#url}: its sequence number is ${fencedBy}, not ${this.#number}. ${effect}`;
    return (this.#fenced = createError(FencedError, message, { url: this.#url, epoch: this.#number, fencedBy, cause }));
  }
}

interface PageBlobState {
  readonly etag: string;
  readonly number: number;
}

class RaiseFailedError extends Error {
  /** Another client has changed the blob meanwhile. */
  readonly conflict: boolean;

  constructor(conflict: boolean, cause: unknown) {
    super("the sequence number could not be raised", { cause });
    this.conflict = conflict;
  }
}

function withNumber(options: BlobCallOptions, number: number): PageWriteOptions {
  return { ...options, conditions: { ...options.conditions, ifSequenceNumberEqualTo: number } };
}

const pageInBytes = 512;

/** The maximum that one request writes. */
const maxPagesInBytes = 4 * 1024 * 1024;

/** A page blob is written in whole pages. */
function checkPages(offset: number, count: number): void {
  checkNumber("offset", offset, { min: 0, max: Number.MAX_SAFE_INTEGER, integer: true });
  checkNumber("the length", count, { min: pageInBytes, max: Number.MAX_SAFE_INTEGER, integer: true });
  for (const [name, value] of Object.entries({ offset, "the length": count })) {
    if (value % pageInBytes !== 0) throw new RangeError(`${name} must be a multiple of ${pageInBytes}, the size of a page; got ${value}`);
  }
}
