import type { BlobCallOptions, PageBlobLike, PageWriteOptions } from "../clients/blob.js";
import type { TimedCallOptions } from "../clients/call.js";
import { RequestTimeoutError } from "../core/deadline.js";
import { read, readWithTries, request, whileRejectedForNow } from "../core/request.js";
import { isConflict, isDefinitive, isSequenceConflict, toConcurrencyError } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { CommitUnknownError, createError, FencedError, isConcurrencyError, OperationTimeoutError } from "../errors.js";
import { blobOptions } from "../target/blob-requests.js";
import { newWriteId } from "../target/journal.js";
import { readOnlyReason, withSignal } from "../target/target.js";
import type { RequestContext } from "../target/target.js";
import { checkTargetSettings, requireWritable } from "../update/options.js";
import type { LeaseCondition } from "../update/options.js";
import { runCall } from "../update/run-call.js";
import { SequenceNumber } from "./sequence-number.js";

/** Options of {@link claimPages}. */
export interface ClaimPagesOptions extends TimedCallOptions {
  /** The lease that the caller holds on the blob, sent with the claim and with every write of the writer. @defaultValue none */
  conditions?: LeaseCondition | undefined;
}

const claimNames: OptionNames<ClaimPagesOptions> = { abortSignal: 1, tracingOptions: 1, timeoutInMs: 1, tryTimeoutInMs: 1, conditions: 1 };
const writeNames: OptionNames<TimedCallOptions> = { abortSignal: 1, tracingOptions: 1, timeoutInMs: 1, tryTimeoutInMs: 1 };

/**
 * Writes pages as long as no other writer has claimed the blob: every request carries the sequence number, and the service
 * rejects it if the blob has another one. Writes of one writer to the same pages take effect in the order of the calls, and none
 * after a later one was confirmed, even if it was cancelled and its request arrives late. The result of {@link claimPages}.
 */
export interface PageWriter {
  /** The sequence number under which this writer writes. Grows after lost responses. */
  readonly sequenceNumber: number;
  /**
   * Writes whole pages. Costs 1 request for each 4 MiB, one after the other; a reader may see some of them before the others.
   * Offset and length must be multiples of 512. `timeoutInMs` is for the whole call: give a large write over a slow line more than
   * the default of 30 s.
   * @throws {@link FencedError} if another writer has claimed the blob. `writtenBytes`: how much was written before.
   * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`. `writtenBytes`: how much is written.
   * @throws {@link CommitUnknownError} if a request got no response, and the client does not send it again. Repeat the call: that does no
   * harm. There is no journal, so that its `operationId` identifies nothing.
   */
  write(offset: number, data: Uint8Array, options?: TimedCallOptions): Promise<void>;
  /**
   * Sets pages to zero. Costs 1 request.
   * @throws {@link FencedError} if another writer has claimed the blob.
   * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
   * @throws {@link CommitUnknownError} as `write`.
   */
  clear(offset: number, count: number, options?: TimedCallOptions): Promise<void>;
}

/**
 * Takes over a page blob: raises its sequence number, and returns a writer whose writes carry the new number. From then on the
 * service rejects the writes of earlier writers, including those in flight; they get a `FencedError`. The number begins with the
 * time, so that it also fences writers of a blob of the same name that was deleted.
 *
 * Costs 2 requests. The last caller wins; the application decides which process calls (by a lease, an election).
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
  requireWritable({ ...readOnlyReason(blob), url }, "claimPages");
  return runCall("claimPages", options, settings, url, async (context) => {
    try {
      return new FencedPageWriter(blob, await claimNumber(blob, url, context), settings.leaseId);
    } catch (error) {
      throw toConcurrencyError(error, url, "create it first");
    }
  });
}

/**
 * A number that no writer has had, also not of a blob of the same name that was deleted, or replaced by an older version of itself:
 * those had smaller numbers, because they were claimed earlier. Then the service increments atomically: no two claims get the same
 * number. Both requests can be repeated: if a response is lost, a number is skipped, which is harmless.
 */
async function claimNumber(blob: PageBlobLike, url: string, context: RequestContext): Promise<number> {
  const update = (action: "max" | "increment", number?: number): ReturnType<PageBlobLike["updateSequenceNumber"]> =>
    whileRejectedForNow(
      () => readWithTries((abortSignal) => blob.updateSequenceNumber(action, number, blobOptions(withSignal(context, abortSignal))), context),
      context.abortSignal,
    );
  await update("max", Date.now() * numbersPerMs + Math.floor(Math.random() * numbersPerMs));
  const { blobSequenceNumber } = await update("increment");
  if (blobSequenceNumber === undefined) throw new TypeError(`The response for ${url} has no sequence number.`);
  if (!Number.isSafeInteger(blobSequenceNumber)) throw new RangeError(`The sequence number of ${url} is ${blobSequenceNumber}: beyond 2^53 it cannot be compared.`);
  return blobSequenceNumber;
}

/** Numbers stay safe integers until the year 2248; the service stores 63 bits. The random part tells claims on two machines apart. */
const numbersPerMs = 1_024;

function isPageBlob(blob: unknown): blob is PageBlobLike {
  const client = blob as Partial<PageBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.uploadPages === "function" && typeof client.updateSequenceNumber === "function";
}

/** How often a write is sent again that the service rejects for a reason that is not known, although the number is that of the writer. */
const maxUnknownRejections = 3;

class FencedPageWriter implements PageWriter {
  readonly #blob: PageBlobLike;
  readonly #url: string;
  readonly #leaseId: string | undefined;
  readonly #number: SequenceNumber;
  /** The calls that have not ended, in order. */
  readonly #calls = new Set<PageCall>();

  constructor(blob: PageBlobLike, sequenceNumber: number, leaseId: string | undefined) {
    this.#blob = blob;
    this.#url = redactUrl(blob.url);
    this.#number = new SequenceNumber(blob, sequenceNumber);
    this.#leaseId = leaseId;
  }

  get sequenceNumber(): number {
    return this.#number.current;
  }

  async write(offset: number, data: Uint8Array, options: TimedCallOptions = {}): Promise<void> {
    checkOptions("PageWriter.write", options, writeNames);
    if (!(data instanceof Uint8Array)) throw new TypeError("PageWriter.write: data must be a Uint8Array.");
    checkPages(offset, data.length);
    const bytes = new Uint8Array(data); // the caller may reuse its buffer
    await this.#run("PageWriter.write", offset, bytes.length, options, async (context, call) => {
      for (let at = 0; at < bytes.length; at += maxPagesInBytes) {
        const part = bytes.subarray(at, at + maxPagesInBytes);
        await this.#send(context, call, (request) => this.#blob.uploadPages(part, offset + at, part.length, request));
        call.writtenBytes = at + part.length;
      }
    });
  }

  async clear(offset: number, count: number, options: TimedCallOptions = {}): Promise<void> {
    checkOptions("PageWriter.clear", options, writeNames);
    checkPages(offset, count);
    await this.#run("PageWriter.clear", offset, count, options, (context, call) =>
      this.#send(context, call, (request) => this.#blob.clearPages(offset, count, request)),
    );
  }

  async #run(
    name: string,
    offset: number,
    count: number,
    options: TimedCallOptions,
    work: (context: RequestContext, call: PageCall) => Promise<void>,
  ): Promise<void> {
    const settings = checkTargetSettings(this.#leaseId === undefined ? {} : { conditions: { leaseId: this.#leaseId } });
    const call: PageCall = { from: offset, to: offset + count, writtenBytes: 0, wasSent: false, isUncertain: false, ended: undefined };
    const earlier = [...this.#calls].filter((other) => other.from < call.to && call.from < other.to);
    this.#calls.add(call);
    const running = runCall(name, options, settings, this.#url, async (context) => {
      // Two writes to the same pages take effect in the order of their calls.
      for (const { ended } of earlier) await read(() => ended ?? Promise.resolve(), { abortSignal: context.abortSignal });
      await work(context, call);
    });
    call.ended = running.then(ignore, ignore).finally(() => this.#calls.delete(call));
    try {
      await running;
    } catch (error) {
      // The reason of the caller's own signal.
      if (options.abortSignal?.aborted) throw error;
      throw withProgress(name, this.#url, error, call);
    }
  }

  async #send(context: RequestContext, call: PageCall, write: (options: PageWriteOptions) => Promise<unknown>): Promise<void> {
    try {
      await whileRejectedForNow(() => this.#sendNumbered(context, call, write), context.abortSignal);
    } catch (error) {
      throw toConcurrencyError(error, this.#url, "");
    }
  }

  async #sendNumbered(context: RequestContext, call: PageCall, write: (options: PageWriteOptions) => Promise<unknown>): Promise<void> {
    const { abortSignal, tryLimit } = context;
    for (let timedOut = 0, rejections = 0; ; ) {
      const send = await this.#number.begin(context);
      const put = (signal: AbortSignal): Promise<unknown> => {
        call.wasSent = true;
        return write(withNumber(blobOptions(withSignal(context, signal)), send.number));
      };
      const sent = await request(put, { abortSignal, timeoutInMs: tryLimit.timeoutInMs(timedOut), onTry: tryLimit.onTry });
      const hasEnded = sent.sends === 1 && (sent.kind === "ok" || isDefinitive(sent.error));
      this.#number.end(send, hasEnded);
      if (sent.kind === "ok") return;
      const { error } = sent;
      // If a later try is rejected, this one may have been carried out all the same.
      if (!hasEnded) call.isUncertain = true;
      if (error instanceof RequestTimeoutError) {
        // Sent again, under a number that rejects the try that was given up.
        timedOut++;
        continue;
      }
      if (!isSequenceConflict(error)) {
        if (!isConflict(error) || ++rejections > maxUnknownRejections) throw error;
        // A code that is not known. If another writer has claimed the blob, that is the reason.
        await this.#number.checkFence(context, error);
        continue;
      }
      // Another write of this writer has raised the number meanwhile: send again with the new number.
      if (!this.#number.isRaisedSince(send)) throw await this.#number.readFence(context, error);
    }
  }
}

/** One call, and what is known of it. */
interface PageCall {
  readonly from: number;
  readonly to: number;
  /** How many bytes the service has confirmed, from the start of the range. */
  writtenBytes: number;
  /** Whether a request was sent: its pages may be written. */
  wasSent: boolean;
  /** Whether a try got no response, so that its pages may be written although they are not confirmed. */
  isUncertain: boolean;
  ended: Promise<void> | undefined;
}

/** The error of a call that says how much of the range is written, if it is too late, fenced, or of unknown outcome. */
function withProgress(name: string, url: string, error: unknown, { from, to, writtenBytes, wasSent, isUncertain }: PageCall): unknown {
  const total = to - from;
  if (isConcurrencyError(error, "OPERATION_TIMEOUT")) {
    const { elapsedInMs } = error;
    const rest = wasSent ? "The pages behind them may be written, too: write all of them again, which does no harm." : "No request was sent.";
    const message = `${name} on ${url} timed out after ${Math.round(elapsedInMs)} ms (timeoutInMs): ${writtenBytes} of ${total} bytes are written. ${rest}`;
    return createError(OperationTimeoutError, message, { url, elapsedInMs, writtenBytes, committed: wasSent ? "unknown" : false, cause: error });
  }
  if (isConcurrencyError(error, "FENCED") && (writtenBytes > 0 || isUncertain)) {
    const { epoch, fencedBy } = error;
    const rest = isUncertain ? " A try that got no response may have been written, too." : "";
    const message = `Another writer has claimed ${url} during ${name}: its sequence number is ${fencedBy}, not ${epoch}. ${writtenBytes} of ${total} bytes were written before.${rest}`;
    return createError(FencedError, message, { url, epoch, fencedBy, writtenBytes, committed: "unknown", cause: error });
  }
  // Also an error that says that nothing was written: that is true of the last try only.
  if (isUncertain) {
    const message = `It is unknown how much ${name} has written on ${url}: ${writtenBytes} of ${total} bytes are written, and a try for those behind them got no response. Write all of them again, which does no harm.`;
    return createError(CommitUnknownError, message, { url, attempts: 1, operationId: newWriteId(), cause: error });
  }
  return error;
}

function ignore(): void {
  // The caller of that write gets its error.
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
