import type { AppendBlobLike } from "../clients/blob.js";
import { withUpdate } from "../core/measure.js";
import { describeSpan, redactUrl } from "../core/telemetry.js";
import { createError, LimitError } from "../errors.js";
import { readOnlyReason } from "../target/target.js";
import { requireWritable } from "../update/options.js";
import { AppendCall } from "./append-call.js";
import type { AppendResult } from "./append-call.js";
import { checkAppendOptions, maxBlockInBytes } from "./append-options.js";
import type { AppendExactlyOnceOptions } from "./append-options.js";
import { enqueueAppend } from "./append-queue.js";

/**
 * Appends one record to an append blob: exactly once, even if responses of the service are lost, and atomically, with any
 * number of appenders in any number of processes. Records of one process are stored in the order of the calls.
 *
 * Clients that do not use claims may append too, but not the same bytes: if such a client appends the same bytes at the position
 * that an append has claimed, they are taken for the record. (A proxy that sends the append twice has the same effect.)
 *
 * With an `operationId`, a repeat of the call is recognised, by any process: the record is stored once, and the repeat resolves with
 * its offset.
 *
 * Costs 2 requests for each block (1 with `uniqueRecords`), and 1 more if the end of the blob is not known from the last
 * append through the same client. Records that wait at the same time share a block.
 *
 * @example
 * ```ts
 * await appendExactlyOnce(container.getAppendBlobClient("audit.log"), `${JSON.stringify(entry)}\n`, { createIfNotExists: true });
 * ```
 * @param record - Appended as it is; text in UTF-8. Line ends or other separators between records are up to the caller.
 * @throws {@link ConflictError} if other appenders were always first: nothing was appended.
 * @throws {@link CommitUnknownError} if it cannot be known whether the record was appended.
 * @throws {@link LimitError} if the record or the blob is too large: nothing was appended.
 * @throws {@link TargetNotFoundError} if the blob does not exist and `createIfNotExists` is not set.
 * @throws {@link OperationTimeoutError} if the time was over before the record was sent: nothing was appended.
 */
export function appendExactlyOnce(
  blob: AppendBlobLike,
  record: string | Uint8Array,
  options: AppendExactlyOnceOptions = {},
): Promise<AppendResult> {
  return withUpdate("appendExactlyOnce", options, async (trace, span) => {
    if (!isAppendBlob(blob)) throw new TypeError("appendExactlyOnce needs an AppendBlobClient.");
    const url = redactUrl(blob.url);
    requireWritable({ ...readOnlyReason(blob), url }, "appendExactlyOnce");
    describeSpan(span, { targetKind: (trace.targetKind = "appendBlob"), url });
    const settings = checkAppendOptions(options);
    const call = new AppendCall(recordOf(record, url), { ...settings, options: { abortSignal: options.abortSignal }, trace, url });
    enqueueAppend(blob, call);
    const result = await call.promise;
    describeSpan(span, { outcome: "appended" });
    return result;
  });
}

function isAppendBlob(blob: unknown): blob is AppendBlobLike {
  const client = blob as Partial<AppendBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.appendBlock === "function" && typeof client.getProperties === "function";
}

/** A copy: the caller may reuse its buffer, and the record may have to be sent again. */
function recordOf(data: string | Uint8Array, url: string): Uint8Array {
  if (typeof data !== "string" && !(data instanceof Uint8Array)) throw new TypeError("The record must be a string or a Uint8Array.");
  // UTF-8 has no lone surrogates: other characters would be stored in their place.
  if (typeof data === "string" && /\p{Cs}/u.test(data)) throw new RangeError("The record must be well-formed Unicode; it has a lone surrogate.");
  const record = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
  if (record.length === 0) throw new RangeError("The record is empty: there is nothing to append.");
  if (record.length > maxBlockInBytes) {
    const message = `The record for ${url} has ${record.length} bytes, more than the maximum of ${maxBlockInBytes}. Nothing was appended.`;
    throw createError(LimitError, message, { code: "APPEND_LIMIT", url, limit: "record" });
  }
  return record;
}
