import type { AppendBlobLike } from "../clients/blob.js";
import { describeSpan, redactUrl, withAttempts } from "../core/telemetry.js";
import { AppendLimitError } from "../errors.js";
import { checkAppendOptions, maxBlockInBytes } from "./append-options.js";
import type { AppendExactlyOptions } from "./append-options.js";
import { AppendCall, enqueueAppend } from "./append-queue.js";
import type { AppendResult } from "./append-queue.js";

/**
 * Appends one record to an append blob: exactly once, also when answers of the service are lost, and as a whole, with
 * any number of appenders in any number of processes. Records of one process stand in the order of the calls.
 *
 * Others may append by other means too, but not the same bytes: if the answer to an append is lost that did not land, and
 * somebody who knows nothing of claims puts the same bytes in its place, they are taken for the record.
 *
 * Costs 2 requests for each block (1 with `uniqueRecords`), and 1 more where the end of the blob is not known from the
 * last append through the same client; records that wait for each other share a block.
 *
 * @param data - Appended as it is; text in UTF-8. A line end, or another mark between records, is up to the caller.
 */
export function appendExactly(
  blob: AppendBlobLike,
  data: string | Uint8Array,
  options: AppendExactlyOptions = {},
): Promise<AppendResult> {
  return withAttempts("appendExactly", options, async (trace, span) => {
    if (!isAppendBlob(blob)) throw new TypeError("not an append blob: pass an AppendBlobClient");
    const url = redactUrl(blob.url);
    describeSpan(span, { targetKind: "appendBlob", url });
    const settings = checkAppendOptions(options);
    const record = recordOf(data, url);
    const call = new AppendCall(record, { ...settings, options: { abortSignal: options.abortSignal }, trace, label: url });
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

/** A copy: the caller may go on to use its buffer, and the record may have to be sent again. */
function recordOf(data: string | Uint8Array, url: string): Uint8Array {
  if (typeof data !== "string" && !(data instanceof Uint8Array)) throw new TypeError("data must be a string or a Uint8Array");
  const record = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
  if (record.length === 0) throw new RangeError("data is empty: there is nothing to append");
  if (record.length > maxBlockInBytes) {
    const message = `the record for ${url} has ${record.length} bytes, a block can have ${maxBlockInBytes}: nothing was appended`;
    throw new AppendLimitError(message, { url, limit: "record" });
  }
  return record;
}
