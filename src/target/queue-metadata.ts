import type { QueueCallOptions, QueueLike } from "../clients/queue.js";
import { isNotFound, isParentNotFound } from "../core/storage-errors.js";
import { fromPrimary } from "./content.js";
import { metadataOf, propertyAdapter } from "./property-set.js";
import type { StringMap } from "./property-set.js";
import { leasedTargetOf } from "./target.js";
import type { LeasedTarget, RequestContext } from "./target.js";

/**
 * The metadata of an existing queue. A queue has neither ETags nor leases: `leasedUpdate` needs a `lock` for it, and the
 * protection is cooperative only. It does not exclude a writer that does not acquire the same lock, or one that was suspended
 * for longer than its lock lasts and then continues. The `etag` of a result is derived from the metadata.
 *
 * @example
 * ```ts
 * const lock = { locks, name: "queues/orders" };
 * await leasedUpdate(queueMetadata(queue), (metadata) => { metadata["owner"] = "billing"; }, { lock });
 * ```
 * @throws `TypeError` if `queue` is not a queue client.
 */
export function queueMetadata(queue: QueueLike): LeasedTarget<Record<string, string>> {
  const given = queue as Partial<QueueLike & { sendMessage: unknown }> | null | undefined;
  if (typeof given?.sendMessage !== "function") throw new TypeError("queueMetadata needs a QueueClient.");
  const set = async (raw: StringMap, context: RequestContext): Promise<string> => {
    await queue.setMetadata(raw, queueOptions(context));
    return etagOf(raw);
  };
  return leasedTargetOf<StringMap, StringMap>({
    ...propertyAdapter("queueMetadata", queue, "queue"),
    leasable: undefined,
    staleETag: "",
    requiresLease: true,
    journaled: false,
    encode: metadataOf,
    async read(context) {
      try {
        const raw = { ...(await fromPrimary(queue, context, queue.getProperties(queueOptions(context)))).metadata };
        return { raw, etag: etagOf(raw), journal: undefined };
      } catch (error) {
        if (isNotFound(error) || isParentNotFound(error)) return undefined;
        throw error;
      }
    },
    write: async (_base, raw, _journal, context) => ({ raw, etag: await set(raw, context), journal: undefined }),
    overwrite: set,
  });
}

/** The options of one request. Counts the request. */
function queueOptions(context: RequestContext): QueueCallOptions {
  context.onRequest?.();
  return { abortSignal: context.abortSignal, ...(context.tracingOptions && { tracingOptions: context.tracingOptions }) };
}

function etagOf(metadata: StringMap): string {
  return JSON.stringify(Object.entries(metadata).sort());
}
