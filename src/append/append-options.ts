import type { CallOptions } from "../clients/call.js";
import { checkNumber } from "../core/validate.js";
import { checkTargetSettings, checkUpdateOptions, updateDefaults } from "../update/options.js";
import type { LeaseCondition } from "../update/options.js";
import type { AppendSettings } from "./append-queue.js";
import { claimsName } from "./append-state.js";
import type { CreateAppendBlobOptions } from "./append-state.js";

/** Options of {@link appendExactlyOnce}. */
export interface AppendExactlyOnceOptions extends CallOptions {
  /** Sent with every request of the call. */
  conditions?: LeaseCondition | undefined;
  /**
   * Declares that no two calls ever append the same bytes, and that no record is a prefix of another: for example, lines with
   * a unique id. Saves the claim (one request for each block), and needs no permission to write metadata. If it is not true,
   * a record may be missing.
   * @defaultValue false: identical records are told apart by claims in the metadata
   */
  uniqueRecords?: boolean | undefined;
  /**
   * Create the blob if it does not exist, with this content type and metadata, if given.
   * @defaultValue false: a missing blob is a `TargetNotFoundError`
   */
  createIfNotExists?: boolean | CreateAppendBlobOptions | undefined;
  /**
   * The blob must not grow beyond this: `AppendLimitError`.
   * @defaultValue Infinity: the service's limit of 50,000 blocks comes first
   */
  maxSizeInBytes?: number | undefined;
  /**
   * Waiting records are appended as one block of up to this size. A larger record gets a block of its own.
   * @defaultValue 4 MiB: what every version of the service takes, and little to read back
   */
  maxBatchSizeInBytes?: number | undefined;
  /**
   * Whether concurrent appends to the same blob in this process, under the same credentials, share blocks.
   * @defaultValue true
   */
  coalesce?: boolean | undefined;
  /**
   * The number of attempts to append the record before the call gives up with a `ConflictError`.
   * @defaultValue 50: with the default delays the deadline comes first
   */
  maxAttempts?: number | undefined;
  /**
   * The time for the whole call, including requests and delays.
   * @defaultValue 30_000
   */
  timeoutInMs?: number | undefined;
  /**
   * The maximum delay after the first conflict, doubled with each further one; the delay is random (full jitter). Also about
   * the time that another appender gets to append after its claim.
   * @defaultValue 10
   */
  retryDelayInMs?: number | undefined;
  /** @defaultValue 1_000 */
  maxRetryDelayInMs?: number | undefined;
  /**
   * What to do if it is unknown whether the record was appended: `"throw"` a `CommitUnknownError`, or `"retry"`, which may
   * append it twice.
   * @defaultValue "throw"
   */
  onUnknown?: "throw" | "retry" | undefined;
}

const defaults = Object.freeze({ maxBatchSizeInBytes: 4 * 1024 * 1024 });

/** The options with defaults filled in and checked. */
export function checkAppendOptions(options: AppendExactlyOnceOptions): Omit<AppendSettings, "options" | "url"> {
  const { createIfNotExists = false, uniqueRecords = false, coalesce = updateDefaults.coalesce } = options;
  // Any string would count as true, even `"false"`.
  for (const [name, value] of Object.entries({ uniqueRecords, coalesce })) {
    if (typeof value !== "boolean") throw new TypeError(`${name} must be true or false`);
  }
  if (typeof createIfNotExists !== "boolean" && (typeof createIfNotExists !== "object" || (createIfNotExists as unknown) === null)) {
    throw new TypeError("createIfNotExists must be true, false, or an object with contentType and metadata");
  }
  if (Object.keys((typeof createIfNotExists === "object" && createIfNotExists.metadata) || {}).some((name) => name.toLowerCase() === claimsName)) {
    throw new TypeError(`the metadata ${JSON.stringify(claimsName)} is this library's: choose another name`);
  }
  return {
    ...checkUpdateOptions(options),
    leaseId: checkTargetSettings({ conditions: options.conditions }).leaseId,
    uniqueRecords,
    coalesce,
    createOptions: createIfNotExists === true ? {} : createIfNotExists === false ? undefined : createIfNotExists,
    maxSizeInBytes: checkNumber("maxSizeInBytes", options.maxSizeInBytes ?? Number.POSITIVE_INFINITY, { min: 1 }),
    maxBatchSizeInBytes: checkNumber("maxBatchSizeInBytes", options.maxBatchSizeInBytes ?? defaults.maxBatchSizeInBytes, {
      min: 1,
      max: maxBlockInBytes,
      integer: true,
    }),
  };
}

/** The largest block of an append blob. */
export const maxBlockInBytes: number = 100 * 1024 * 1024;
