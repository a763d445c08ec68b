import type { ContainerLike } from "../../clients/blob.js";
import type { PurgeOptions, PurgeResult } from "../../clients/call.js";
import { redactUrl, withSpan } from "../../core/telemetry.js";
import { checkNumber, checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { purgeTexts } from "../../overflow/purge-texts.js";
import { requireClient } from "../../target/target.js";
import { overflowPrefix } from "./reference.js";

const names: OptionNames<PurgeOptions> = { olderThanInMs: 1, abortSignal: 1, tracingOptions: 1 };

/** Four times the life of a message, and time to see to the poison queue. */
const defaultAgeInMs = 30 * 86_400_000;

/**
 * Deletes the payloads of messages that do not exist any more: a producer ended before it sent the message, a consumer ended after it
 * deleted the message and before the blob, or the message expired. Deletes only blobs with the prefix `asc-overflow/`, of all queues.
 *
 * It cannot know whether a message refers to a blob. `olderThanInMs` is 30 days unless set, counted from the last `enqueue`, and must be
 * longer than any message may exist: its time to live, the time in the poison queue, which has no end by itself, and its time to live
 * again after a redrive. A message whose payload was purged is moved to the poison queue, with the reason that the payload is missing.
 * Costs 1 request for every 5,000 blobs, and 1 for each that is deleted.
 * @throws `RangeError` if `olderThanInMs` is negative.
 * @throws {@link TargetNotFoundError} if the container does not exist.
 * @throws {@link OperationTimeoutError} if a request gets no response within 30 seconds. What was deleted by then stays deleted.
 * @throws `RestError` if the service rejects a request.
 * @example
 * ```ts
 * const { deleted } = await purgeOverflow(container, { olderThanInMs: 60 * 86_400_000 });
 * ```
 */
export async function purgeOverflow(container: ContainerLike, options: PurgeOptions = {}): Promise<PurgeResult> {
  checkOptions("purgeOverflow", options, names);
  requireClient("purgeOverflow", container, "a ContainerClient", ["getBlockBlobClient", "listBlobsFlat"]);
  const olderThan = Date.now() - checkNumber("olderThanInMs", options.olderThanInMs ?? defaultAgeInMs, { min: 0 });
  const url = redactUrl(container.url);
  return withSpan("purgeOverflow", options, async (tracingOptions) => {
    return purgeTexts(container, { prefix: overflowPrefix, writtenBefore: olderThan }, { abortSignal: options.abortSignal, tracingOptions });
  }, { targetKind: "container", url });
}
