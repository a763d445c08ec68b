import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { Deadline } from "../core/deadline.js";
import { callTimeoutError, tryLimitOf } from "../core/request.js";
import { fullJitter, retry } from "../core/retry.js";
import { isDefinitive, isParentNotFound } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import { createError, isConcurrencyError, TargetNotFoundError } from "../errors.js";
import { defaultJournalName } from "../target/journal.js";
import { quoted } from "../target/library-rows.js";
import { tableUrl } from "../target/stored-entity.js";
import { ownEntity } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import { adapterOf, checkedResult } from "../target/target.js";
import type { ReadResult, UpdateTarget } from "../target/target.js";
import { collectRows } from "../transaction/row.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import { entityOf, jobRowPrefix, schedulePartitionPrefix, stateOf } from "./job-row.js";
import type { JobEntity } from "./job-row.js";
import type { JobState } from "./job-state.js";
import { ServiceClock } from "./service-clock.js";

/** The row of a job, as it was read. */
export interface FoundJob {
  readonly name: string;
  /** Identifies the version: the next write can start from it, without another read. */
  readonly row: ReadResult<Entity<JobEntity>>;
}

/** How a transition is written. */
export interface TransitionOptions extends CallOptions {
  /** One attempt, from this version. @defaultValue none: reads first, and starts again after a conflict */
  startFrom?: FoundJob | undefined;
  /** The state of a job that has no row. @defaultValue none: a missing row is a `TargetNotFoundError` */
  initial?: ((now: number) => JobState) | undefined;
}

const lookTimeoutInMs = 30_000;
const tryTimeoutInMs = 8_000;

/** The rows of the jobs of one schedule. */
export class JobStore {
  readonly table: TableLike;
  readonly name: string;
  readonly url: string;
  readonly clock: ServiceClock = new ServiceClock();

  constructor(table: TableLike, name: string) {
    this.table = table;
    this.name = name;
    this.url = tableUrl(table);
  }

  get #partitionKey(): string {
    return `${schedulePartitionPrefix}${this.name}`;
  }

  /**
   * Reads the rows of all jobs. Costs 1 request for up to 1,000.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   */
  async look({ abortSignal, tracingOptions }: CallOptions): Promise<ReadonlyMap<string, FoundJob>> {
    const started = performance.now();
    const deadline = new Deadline(lookTimeoutInMs, () => callTimeoutError(this.url, lookTimeoutInMs, started), abortSignal);
    try {
      const filter = `PartitionKey eq ${quoted(this.#partitionKey)} and RowKey ge ${quoted(jobRowPrefix)} and RowKey lt ${quoted(`${jobRowPrefix}~`)}`;
      const rows = await deadline.race(
        collectRows(this.table, filter, {
          abortSignal: deadline.signal,
          ...(tracingOptions && { tracingOptions }),
          tryLimit: tryLimitOf(tryTimeoutInMs),
          onResponse: this.clock.onResponse,
        }),
      );
      const found = new Map<string, FoundJob>();
      for (const [rowKey, { stored, etag, journal, journalValue }] of rows) {
        if (!stored) continue;
        const name = rowKey.slice(jobRowPrefix.length);
        const adapter = adapterOf(this.#target(name));
        if (!adapter) continue;
        const snapshot = { raw: stored as unknown, etag: requireETag(etag, this.url), journal, keep: journalValue?.value };
        found.set(name, { name, row: (await checkedResult(adapter, snapshot, defaultJournalName)) as ReadResult<Entity<JobEntity>> });
      }
      return found;
    } catch (error) {
      if (!isParentNotFound(error)) throw error;
      throw createError(TargetNotFoundError, `The table ${this.url} of a schedule does not exist. Create it first.`, { url: this.url, cause: error });
    } finally {
      deadline.dispose();
    }
  }

  /** @throws {@link SchemaError} if the row is damaged. */
  stateOf({ row }: FoundJob): JobState {
    return stateOf(row.value, this.url, this.clock.now);
  }

  /**
   * Writes a transition, exactly once even if responses are lost. Undefined: the transition does not apply to what is stored, and nothing
   * was written.
   * @throws {@link ConflictError} if there is a `startFrom`, and another instance has changed the row since.
   */
  async write(job: string, transition: (state: JobState, now: number) => JobState | undefined, options: TransitionOptions = {}): Promise<JobState | undefined> {
    const { startFrom, initial, abortSignal, tracingOptions } = options;
    const { now } = this.clock;
    let next: JobState | undefined;
    await optimisticUpdate(
      this.#target(job),
      (draft) => {
        const state = stateOf(draft, this.url, now);
        next = transition(state, now);
        if (next && next !== state) Object.assign(draft, entityOf(this.name, job, next));
      },
      {
        ...(startFrom && { startFrom: startFrom.row, maxAttempts: 1 }),
        ...(initial && { initial: () => entityOf(this.name, job, initial(now)) }),
        ...(abortSignal && { abortSignal }),
        ...(tracingOptions && { tracingOptions }),
      },
    );
    return next;
  }

  /**
   * As `write`, for a transition that recognises that it was applied before. Repeated while `isHeld` says so: what was done must not be
   * done again because the table cannot be reached.
   */
  persist(job: string, transition: (state: JobState, now: number) => JobState | undefined, isHeld: () => boolean, options: TransitionOptions = {}): Promise<JobState | undefined> {
    let isOwn = false;
    const watched = (state: JobState, now: number): JobState | undefined => {
      // What the transition itself throws, or the code of the caller in it, is not repeated.
      isOwn = true;
      const next = transition(state, now);
      isOwn = false;
      return next;
    };
    const shouldRetry = (error: unknown): boolean => {
      if (isOwn || !isHeld()) return false;
      if (isConcurrencyError(error, "CONFLICT")) return options.startFrom === undefined;
      return isConcurrencyError(error) ? ["COMMIT_UNKNOWN", "OPERATION_TIMEOUT"].includes(error.code) : !isDefinitive(error);
    };
    // From the second attempt on, the row is read again.
    return retry((attempt) => this.write(job, watched, attempt === 1 ? options : { ...options, startFrom: undefined }), {
      maxAttempts: Infinity,
      shouldRetry,
      backoff: (attempt) => fullJitter(attempt - 1, 50, 2_000),
      abortSignal: options.abortSignal,
    });
  }

  #target(job: string): UpdateTarget<Entity<JobEntity>, JobEntity> {
    return ownEntity<JobEntity>(this.table, { partitionKey: this.#partitionKey, rowKey: `${jobRowPrefix}${job}` });
  }
}
