import type { ConflictRetryOptions, WriteOutcomeOptions } from "../clients/call.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { requireNoClaims } from "../target/append-claims.js";
import { checkOperationId } from "../target/journal.js";
import { checkTargetSettings, checkUpdateOptions, updateDefaults } from "../update/options.js";
import type { LeaseCondition } from "../update/options.js";
import type { AppendSettings } from "./append-call.js";
import type { CreateAppendBlobOptions } from "./append-state.js";

/** Options of {@link appendExactlyOnce}. */
export interface AppendExactlyOnceOptions extends ConflictRetryOptions, WriteOutcomeOptions {
  /**
   * Identifies this record: 1 to 64 letters, digits, `-` and `_`. A repeat of the call with the same id and the same record, by any
   * process, is recognised while the id is in the claims in the metadata, and resolves with the offset of the record that is stored. The
   * claims of the last 64 blocks are kept, with as many ids as fit into 8 KiB: about 150 of 36 characters. With `uniqueRecords`,
   * such a record gets a claim, too.
   * @defaultValue none: only the requests of this call are recognised. A {@link CommitUnknownError} has an id for a repeat
   */
  operationId?: string | undefined;
  /** The lease that the caller holds on the blob, sent with every request of the call. @defaultValue none */
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
   * @defaultValue false: a missing blob is a {@link TargetNotFoundError}
   */
  createIfNotExists?: boolean | CreateAppendBlobOptions | undefined;
  /**
   * The blob must not grow beyond this: otherwise a {@link LimitError}.
   * @defaultValue Infinity: the service's limit of 50,000 blocks comes first
   */
  maxSizeInBytes?: number | undefined;
  /**
   * Waiting records are appended as one block of up to this size. A larger record gets a block of its own.
   * @defaultValue 4 MiB: what every version of the service takes, and little to read back
   */
  maxBatchSizeInBytes?: number | undefined;
  /**
   * Whether concurrent appends to the same blob in this process, under the same credentials, share blocks. Such a block travels in the
   * async context of one of its callers: pass `false` if a policy of the client depends on the context.
   * @defaultValue true: a fraction of the requests
   */
  coalesce?: boolean | undefined;
}

const optionNames: OptionNames<AppendExactlyOnceOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  maxAttempts: 1,
  retryDelayInMs: 1,
  maxRetryDelayInMs: 1,
  operationId: 1,
  onUnknown: 1,
  conditions: 1,
  uniqueRecords: 1,
  createIfNotExists: 1,
  maxSizeInBytes: 1,
  maxBatchSizeInBytes: 1,
  coalesce: 1,
};

const defaults = Object.freeze({ maxBatchSizeInBytes: 4 * 1024 * 1024 });

/** The options with defaults filled in and checked. */
export function checkAppendOptions(options: AppendExactlyOnceOptions): Omit<AppendSettings, "options" | "url"> {
  checkOptions("appendExactlyOnce", options, optionNames);
  const { createIfNotExists = false, uniqueRecords = false, coalesce = updateDefaults.coalesce } = options;
  // Any string would count as true, even `"false"`.
  for (const [name, value] of Object.entries({ uniqueRecords, coalesce })) {
    if (typeof value !== "boolean") throw new TypeError(`${name} must be true or false.`);
  }
  if (typeof createIfNotExists !== "boolean" && (typeof createIfNotExists !== "object" || (createIfNotExists as unknown) === null)) {
    throw new TypeError("createIfNotExists must be true, false, or an object with contentType and metadata.");
  }
  requireNoClaims((typeof createIfNotExists === "object" && createIfNotExists.metadata) || {});
  return {
    ...checkUpdateOptions(options),
    leaseId: checkTargetSettings({ conditions: options.conditions }).leaseId,
    operationId: checkRecordId(options.operationId),
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

/** The ids that an update gets from the library have a separator that the claims use, too. */
function checkRecordId(operationId: string | undefined): string | undefined {
  if (checkOperationId(operationId)?.includes("~")) throw new RangeError("operationId is the id of an update, not of an append.");
  return operationId;
}

/** The largest block of an append blob. */
export const maxBlockInBytes: number = 100 * 1024 * 1024;
