import type { CallOptions } from "../clients/call.js";
import { checkNumber } from "../core/validate.js";
import { checkTargetSettings, checkUpdateOptions, updateDefaults } from "../update/options.js";
import type { TargetConditions } from "../update/options.js";
import type { AppendSettings } from "./append-queue.js";
import { claimsName } from "./append-state.js";
import type { NewLog } from "./append-state.js";

/** Options of {@link appendExactly}. */
export interface AppendExactlyOptions extends CallOptions {
  /** Sent with every request of the call. */
  conditions?: TargetConditions | undefined;
  /**
   * Says that no two calls ever append the same bytes, and that no record begins with the whole of another one: lines
   * with an id of their own, say. Saves the claim (one request for each block), and needs no right to write metadata.
   * Where it is not true, a record whose answer was lost may be missing.
   * @defaultValue false: identical records are told apart by claims in the metadata
   */
  uniqueRecords?: boolean | undefined;
  /**
   * Make the blob if there is none; with this content type and metadata, if they are given.
   * @defaultValue false: a missing blob is a `TargetNotFoundError`
   */
  createIfMissing?: boolean | NewLog | undefined;
  /**
   * The blob must not grow beyond this: `AppendLimitError`.
   * @defaultValue Infinity: the service's limit of 50,000 blocks comes first
   */
  maxSizeInBytes?: number | undefined;
  /**
   * Records that wait are appended as one block of up to this size. A larger record is a block of its own.
   * @defaultValue 4 MiB: what every version of the service takes, and little to read back
   */
  maxBatchInBytes?: number | undefined;
  /**
   * Whether concurrent appends to the same blob in this process, under the same credentials, share blocks.
   * @defaultValue true
   */
  coalesce?: boolean | undefined;
  /**
   * How often the record is tried to be appended before the call gives up with a `ConflictError`.
   * @defaultValue 50: with the default delays the deadline comes first
   */
  maxAttempts?: number | undefined;
  /**
   * The time for the whole call, requests and waits included.
   * @defaultValue 30_000
   */
  timeoutInMs?: number | undefined;
  /**
   * After a lost race: a random wait of up to this, doubled with each further one (full jitter). Also about the time
   * that another appender is given to carry out its claim.
   * @defaultValue 10
   */
  retryDelayInMs?: number | undefined;
  /** @defaultValue 1_000 */
  maxRetryDelayInMs?: number | undefined;
  /**
   * What to do if it cannot be known whether the record was appended: `"throw"` a `CommitUnknownError`, or `"retry"`,
   * which may append it twice.
   * @defaultValue "throw"
   */
  onUnknown?: "throw" | "retry" | undefined;
}

const defaults = Object.freeze({ maxBatchInBytes: 4 * 1024 * 1024 });

/** The options with defaults filled in and checked. */
export function checkAppendOptions(options: AppendExactlyOptions): Omit<AppendSettings, "options" | "label"> {
  const { createIfMissing = false, uniqueRecords = false, coalesce = updateDefaults.coalesce } = options;
  // A word would count as yes: `"false"` too.
  for (const [name, value] of Object.entries({ uniqueRecords, coalesce })) {
    if (typeof value !== "boolean") throw new TypeError(`${name} must be true or false`);
  }
  if (typeof createIfMissing !== "boolean" && (typeof createIfMissing !== "object" || (createIfMissing as unknown) === null)) {
    throw new TypeError("createIfMissing must be true, false, or an object with contentType and metadata");
  }
  if (Object.keys((typeof createIfMissing === "object" && createIfMissing.metadata) || {}).some((name) => name.toLowerCase() === claimsName)) {
    throw new TypeError(`the metadata ${JSON.stringify(claimsName)} is this library's: choose another name`);
  }
  return {
    ...checkUpdateOptions(options),
    leaseId: checkTargetSettings({ conditions: options.conditions }).leaseId,
    uniqueRecords,
    coalesce,
    createOptions: createIfMissing === true ? {} : createIfMissing === false ? undefined : createIfMissing,
    maxSizeInBytes: checkNumber("maxSizeInBytes", options.maxSizeInBytes ?? Number.POSITIVE_INFINITY, { min: 1 }),
    maxBatchInBytes: checkNumber("maxBatchInBytes", options.maxBatchInBytes ?? defaults.maxBatchInBytes, {
      min: 1,
      max: maxBlockInBytes,
      integer: true,
    }),
  };
}

/** The largest block of an append blob. */
export const maxBlockInBytes: number = 100 * 1024 * 1024;
