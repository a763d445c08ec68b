import type { PageBlobLike } from "../clients/blob.js";
import { read, readWithTries } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { createError, FencedError } from "../errors.js";
import { blobOptions } from "../target/blob-requests.js";
import { fromPrimary } from "../target/content.js";
import { withSignal } from "../target/target.js";
import type { RequestContext } from "../target/target.js";

/** A request under a number of the writer. Until a response proves that it has ended, it may arrive at any time. */
export interface NumberedSend {
  readonly number: number;
  /** Aborts when the call ends: the request may still arrive, but no caller waits for it. */
  readonly signal: AbortSignal;
}

/** How often the writer tries to raise its number while other clients change the blob. */
const maxRaises = 10;

/**
 * The sequence number of one writer. Writing the same bytes to the same pages twice is harmless, so a lost response costs nothing,
 * with one exception: a request that was given up may arrive late, and overwrite a newer write to the same pages. Each request is
 * recorded before it is sent, and the record is removed only when the service has responded to a single send. If a record is left
 * of a call that has ended, the number is raised before the next write: what is still in flight is then rejected.
 */
export class SequenceNumber {
  readonly #blob: PageBlobLike;
  readonly #url: string;
  #current: number;
  #fenced: FencedError | undefined;
  readonly #sends = new Set<NumberedSend>();
  /** A request that was sent under the current number may still be in flight, and nothing waits for it. */
  #abandoned = false;
  /** What the number is being raised to. Kept if a call gives up, because its raise may have been committed. */
  #raised: number | undefined;
  #raising: { readonly by: RequestContext; readonly done: Promise<void> } | undefined;

  constructor(blob: PageBlobLike, current: number) {
    this.#blob = blob;
    this.#url = redactUrl(blob.url);
    this.#current = current;
  }

  get current(): number {
    return this.#current;
  }

  /** Records a request that is about to be sent. If an earlier one may still arrive, raises the number first. */
  async begin(context: RequestContext): Promise<NumberedSend> {
    for (;;) {
      if (this.#fenced) throw this.#fenced;
      if (!this.#mustRaise() || (await this.#raise(context))) break;
    }
    const send = { number: this.#current, signal: context.abortSignal };
    this.#sends.add(send);
    return send;
  }

  /** `hasEnded`: it was sent once, and the service has responded to it. */
  end(send: NumberedSend, hasEnded: boolean): void {
    this.#sends.delete(send);
    // A request under an earlier number is rejected already.
    if (!hasEnded && send.number === this.#current) this.#abandoned = true;
  }

  /** Whether the number was raised since the request was sent, or is being raised: the request can be sent again. */
  isRaisedSince(send: NumberedSend): boolean {
    return send.number !== this.#current || this.#raising !== undefined;
  }

  /** After the service has rejected a request because of its number. */
  async readFence(context: RequestContext, cause: unknown): Promise<FencedError> {
    const { number } = await this.#readState(context);
    return this.#fence(number, cause);
  }

  /** Throws if another writer has claimed the blob, or this one is about to notice that. */
  async checkFence(context: RequestContext, cause: unknown): Promise<void> {
    const { number } = await this.#readState(context);
    // What this writer raises the number to is its own.
    if (number !== this.#current && number !== this.#raised) throw this.#fence(number, cause);
  }

  #mustRaise(): boolean {
    if (this.#abandoned || this.#raising) return true;
    // A call ends before its request does: its caller may write again in the same moment.
    for (const { number, signal } of this.#sends) if (signal.aborted && number === this.#current) return true;
    return false;
  }

  /** Raises the number once for all writes that wait for it. False: the write that started the raise has failed; try again. */
  async #raise(context: RequestContext): Promise<boolean> {
    const raising = (this.#raising ??= { by: context, done: this.#raiseNumber(context).finally(() => (this.#raising = undefined)) });
    try {
      await read(() => raising.done, { abortSignal: context.abortSignal });
      return true;
    } catch (error) {
      if (raising.by === context || this.#fenced || context.abortSignal.aborted) throw error;
      return false;
    }
  }

  async #raiseNumber(context: RequestContext): Promise<void> {
    // A random step, so that this raise is recognised if its response is lost. Small: a claim of the next second should be higher.
    const raised = (this.#raised ??= this.#current + 2 + Math.floor(Math.random() * 2 ** 20));
    let found: PageBlobState | undefined;
    const raiseOnce = async (): Promise<void> => {
      const base = found ?? (await this.#readState(context));
      if (base.number === raised) return;
      if (base.number !== this.#current) throw this.#fence(base.number, undefined);
      const outcome = await resolveWrite<unknown, PageBlobState>(
        {
          send: (abortSignal) => this.#blob.updateSequenceNumber("update", raised, blobOptions(withSignal(context, abortSignal), { ifMatch: base.etag })),
          readBack: () => this.#readState(context),
          recognise: (state) => (state.number === raised ? "committed" : state.etag === base.etag ? "unchanged" : "not committed"),
          onConflict: () => 0,
        },
        { abortSignal: context.abortSignal, tryLimit: context.tryLimit },
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
    this.#current = raised;
    this.#raised = undefined;
    this.#abandoned = false;
  }

  async #readState(context: RequestContext): Promise<PageBlobState> {
    const { etag, blobSequenceNumber = 0 } = await readWithTries((abortSignal) => fromPrimary(this.#blob, context, this.#blob.getProperties(blobOptions(withSignal(context, abortSignal)))), context);
    return { etag: requireETag(etag, this.#url), number: blobSequenceNumber };
  }

  #fence(fencedBy: number, cause: unknown): FencedError {
    const message = `Another writer has claimed ${this.#url}: its sequence number is ${fencedBy}, not ${this.#current}. Nothing was written.`;
    return (this.#fenced = createError(FencedError, message, { url: this.#url, epoch: this.#current, fencedBy, cause }));
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
