import type { BlockBlobLike } from "../clients/blob.js";
import type { WriteOutcomeOptions } from "../clients/call.js";
import { rejectNestedUpdate } from "../core/hold-context.js";
import { OutcomeUnknownError, resolveWrite } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isServerBusy } from "../core/storage-errors.js";
import { checkOneOf, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, CommitUnknownError, isConcurrencyError, TargetNotFoundError } from "../errors.js";
import { beginWrite, endWrite, forgottenError, hasLeft, hasOperation, journalAfter, newWriteId, tokenOf } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { readSnapshot, withSignal } from "../target/target.js";
import type { AnyInput, RequestContext, ServiceAdapter, Snapshot, Target } from "../target/target.js";
import { commit, tokensOf } from "./commit.js";
import { checkIfMatch, checkTargetSettings, operationIdFor, requireConditional, requireWritable, resolveTarget, updateDefaults, versionError } from "./options.js";
import type { TargetOptions } from "./options.js";
import { runCall } from "./run-call.js";
import type { MarkWrite } from "./run-call.js";

/** Options of {@link overwrite}. */
export interface WriteTargetOptions extends TargetOptions, WriteOutcomeOptions {
  /**
   * Write only over the version with this ETag, otherwise a {@link ConflictError}; not for targets that need a lease.
   * @defaultValue none: the last writer wins
   */
  ifMatch?: string | undefined;
}

const overwriteNames: OptionNames<WriteTargetOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  conditions: 1,
  journal: 1,
  operationId: 1,
  onUnknown: 1,
  ifMatch: 1,
};

/** How often a value is read that others keep changing, where only conditional writes exist. */
const maxOverwrites = 10;

/**
 * Stores the value, whatever is stored, and creates the target if it does not exist: the last writer wins. With `ifMatch`, only over
 * that version. Costs 1 request (3 for a file, 2 for the metadata of a blob). Reads nothing, and so preserves nothing: existing
 * headers, metadata, tags, properties or the encryption scope are lost. An update in progress in another call or process detects the
 * write and starts again from this value.
 *
 * The request is sent once, because a second send could erase an update that another client made on top of the first. If its
 * response is lost, the library finds the write in the journal; if it does not, the outcome is unknown.
 *
 * @example
 * ```ts
 * await overwrite(jsonBlob<Settings>(blob), { level: "info" });
 * ```
 * @throws {@link ConflictError} if the target does not have the ETag `ifMatch`: nothing was written.
 * @throws {@link TargetNotFoundError} if there is `ifMatch`, and the target does not exist.
 * @throws {@link CommitUnknownError} if the response was lost, and the write is not found.
 * @throws {@link OperationTimeoutError} if the time was over before the write was sent: nothing was written.
 * @throws {@link SchemaError} if the value does not match the schema: nothing was written.
 * @throws {@link LeaseUnavailableError} if another client has leased the target: nothing was written.
 */
export async function overwrite<I>(
  target: Target<AnyInput, I> | BlockBlobLike,
  value: I,
  options: WriteTargetOptions = {},
): Promise<{ readonly etag: string }> {
  checkOptions("overwrite", options, overwriteNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget<unknown>(target, settings);
  requireWritable(adapter, "overwrite");
  rejectNestedUpdate("overwrite", adapter.url, adapter.partition);
  const { ifMatch } = options;
  if (ifMatch !== undefined) {
    requireConditional(adapter, "overwrite with ifMatch");
    checkIfMatch("overwrite", ifMatch);
  }
  const operationId = operationIdFor(options.operationId, adapter, settings);
  const mayRepeat = checkOneOf("onUnknown", options.onUnknown ?? updateDefaults.onUnknown, ["throw", "retry"]) === "retry";
  return runCall("overwrite", options, settings, adapter.url, async (context, { markWrite }) => {
    const encoded = adapter.encode(value, undefined);
    const raw = adapter.validate ? await adapter.validate(encoded, "write") : encoded;
    const journaling = settings.journaling && adapter.journaled;
    const operationIds = operationId === undefined ? [] : [operationId];
    const journal = journaling ? journalAfter(undefined, newWriteId(), operationIds, adapter.journalScope) : undefined;
    return { etag: await new Overwrite(adapter, raw, context, { ifMatch, journal, mayRepeat, operationId, markWrite }).run() };
  }, { targetKind: adapter.kind, isUpdate: true });
}

interface OverwriteSettings {
  readonly ifMatch: string | undefined;
  readonly journal: Journal | undefined;
  readonly mayRepeat: boolean;
  /** The caller's own. */
  readonly operationId: string | undefined;
  readonly markWrite: MarkWrite;
}

/** One call of `overwrite`. */
class Overwrite {
  readonly #adapter: ServiceAdapter<unknown, unknown>;
  readonly #raw: unknown;
  readonly #context: RequestContext;
  readonly #settings: OverwriteSettings;
  readonly #started = performance.now();
  /** The caller's, or one of the library. */
  #operationId: string;

  constructor(adapter: ServiceAdapter<unknown, unknown>, raw: unknown, context: RequestContext, settings: OverwriteSettings) {
    this.#adapter = adapter;
    this.#raw = raw;
    this.#context = context;
    this.#settings = settings;
    const { operationId, journal } = settings;
    this.#operationId = operationId ?? (journal ? tokenOf(journal) : newWriteId());
  }

  /** Returns the ETag. */
  run(): Promise<string> {
    const { overwrite: write, writeSteps } = this.#adapter;
    const { ifMatch, operationId } = this.#settings;
    if (write && writeSteps) return this.#writeInSteps(write);
    if (write && operationId === undefined) return this.#writeOver(write, ifMatch);
    return this.#writeOverFound(write);
  }

  /** Targets that need several requests for a write determine its outcome themselves. */
  async #writeInSteps(write: NonNullable<ServiceAdapter<unknown, unknown>["overwrite"]>): Promise<string> {
    try {
      return await this.#settings.markWrite(this.#operationId, () => write(this.#raw, this.#context, { ifMatch: undefined, journal: undefined }));
    } catch (error) {
      throw error instanceof OutcomeUnknownError ? this.#unknown(error.cause) : error;
    }
  }

  /** Writes over any version, or over that of the caller. */
  async #writeOver(write: NonNullable<ServiceAdapter<unknown, unknown>["overwrite"]>, ifMatch: string | undefined, attempts = 1): Promise<string> {
    const { journal, mayRepeat, markWrite } = this.#settings;
    const context = this.#context;
    const writeId = journal?.entries[0]?.split("+")[0] ?? newWriteId();
    beginWrite(writeId);
    const outcome = await markWrite(this.#operationId, (onConflict) => resolveWrite<string, Snapshot<unknown> | null>(
      {
        send: (abortSignal) => write(this.#raw, withSignal(context, abortSignal), { ifMatch, journal }),
        readBack: async () => (await readSnapshot(this.#adapter, context)) ?? null,
        recognise: (found, reason, error) => {
          if (this.#isOwn(found)) return "committed";
          if (reason === "conflict") return "not committed";
          if (ifMatch !== undefined) return found?.etag === ifMatch ? "unchanged" : "unknown";
          return mayRepeat || isServerBusy(error) ? "unchanged" : "unknown";
        },
        onConflict,
      },
      { abortSignal: context.abortSignal, tryLimit: context.tryLimit, sendOnce: ifMatch === undefined && !mayRepeat },
    ));
    if (outcome.kind !== "unknown" && !context.abortSignal.aborted) endWrite(writeId);
    switch (outcome.kind) {
      case "committed":
        return outcome.value;
      case "recognised":
        return this.#etagOf(outcome.found);
      case "rejected":
        throw outcome.error;
      case "conflict":
        throw this.#conflict(outcome.found, outcome.error, attempts);
      case "unknown":
        throw this.#unknown(outcome.error);
    }
  }

  /**
   * Reads, and writes over what was found: to recognise a repetition of the operation, or because the store has conditional writes
   * only. Starts again after a conflict.
   */
  #writeOverFound(write: ServiceAdapter<unknown, unknown>["overwrite"]): Promise<string> {
    const { ifMatch, journal, mayRepeat, operationId, markWrite } = this.#settings;
    const writeId = journal?.entries[0]?.split("+")[0] ?? newWriteId();
    const operationIds = operationId === undefined ? [] : [operationId];
    /** What was read after a conflict; null: the target does not exist. */
    let known: Snapshot<unknown> | null | undefined;
    const attempt = async (attempts: number): Promise<string> => {
      const base = known === undefined ? await readSnapshot(this.#adapter, this.#context) : (known ?? undefined);
      known = undefined;
      if (operationId !== undefined && hasOperation(base?.journal, operationId, this.#adapter.journalScope)) return this.#etagOf(base ?? null);
      if (operationId !== undefined && !mayRepeat && hasLeft(base?.journal, operationId)) throw this.#unknown(forgottenError());
      if (ifMatch !== undefined && base?.etag !== ifMatch) throw this.#conflict(base ?? null, undefined, attempts);
      if (!base && this.#adapter.notFoundAdvice !== undefined) throw this.#notFound(this.#adapter.notFoundAdvice);
      if (write && base) return this.#writeOver(write, base.etag, attempts);
      const plan = { base, draft: this.#raw, journaling: journal !== undefined, mayRepeat, writeId, operationIds };
      this.#operationId = operationId ?? tokensOf(this.#adapter, plan)(undefined);
      const outcome = await markWrite(this.#operationId, (onConflict) => commit(this.#adapter, plan, this.#context, onConflict));
      if (outcome.kind === "committed") return outcome.superseded ? this.#adapter.staleETag : this.#etagOf(outcome.found);
      if (outcome.kind === "rejected") throw outcome.error;
      if (outcome.kind === "unknown") throw this.#unknown(outcome.error);
      known = outcome.found;
      throw this.#conflict(outcome.found ?? undefined, outcome.error, attempts);
    };
    const shouldRetry = (error: unknown): boolean => isConcurrencyError(error, "CONFLICT") && ifMatch === undefined;
    return retry(attempt, { maxAttempts: maxOverwrites, shouldRetry, abortSignal: this.#context.abortSignal });
  }

  /** An overwrite begins a lineage of its own: it is found under any number of journaled writes. */
  #isOwn(found: Snapshot<unknown> | null): boolean {
    const { journal } = this.#settings;
    return journal ? found?.journal?.lineage === journal.lineage : found !== null && this.#adapter.equals(found.raw, this.#raw);
  }

  /** With the ETag of another value, the caller could overwrite that value without having seen it. */
  #etagOf(found: Snapshot<unknown> | null): string {
    return found && this.#adapter.equals(found.raw, this.#raw) ? found.etag : this.#adapter.staleETag;
  }

  #conflict(found: Snapshot<unknown> | null | undefined, cause: unknown, attempts: number): Error {
    return versionError(this.#adapter.url, { started: this.#started, attempts, consequence: "It was not overwritten." }, found, cause);
  }

  /** Not every target can be created: the metadata of a blob cannot. */
  #notFound(advice: string): Error {
    const { url } = this.#adapter;
    return createError(TargetNotFoundError, `${url} does not exist: ${advice}.`, { url });
  }

  #unknown(cause: unknown): Error {
    const { url } = this.#adapter;
    const message = `The outcome of a write to ${url} is unknown: its response was lost. A repetition may erase an update that another client made meanwhile; pass onUnknown: "retry" if that is acceptable.`;
    return createError(CommitUnknownError, message, { url, attempts: 1, operationId: this.#operationId, cause });
  }
}
