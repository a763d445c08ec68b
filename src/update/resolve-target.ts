import type { BlockBlobLike } from "../clients.js";
import type { GroupSettings } from "./group-commit.js";
import { adapterOf } from "./target.js";
import type { GuardedTarget, TargetAdapter, UpdateTarget } from "./target.js";
import { jsonBlob } from "./targets/blob-content.js";

/** The adapter behind what a caller passed as a target: a target, or a block-blob client that means a JSON document. */
export function resolveTarget<T>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  settings: Pick<GroupSettings, "leaseId">,
): TargetAdapter<T, unknown> {
  const adapter = adapterOf(target) ?? (isBlockBlob(target) ? adapterOf(jsonBlob(target)) : undefined);
  if (!adapter) {
    throw new TypeError("not a target: pass a BlockBlobClient, or what jsonBlob(), tableEntity(), jsonFile(), ... return");
  }
  if (settings.leaseId !== undefined && !adapter.leasable) {
    throw new TypeError(`conditions.leaseId: ${adapter.kind === "queueMetadata" ? "queues" : "table entities"} have no leases`);
  }
  return adapter as TargetAdapter<T, unknown>;
}

/** Refuses what has no If-Match: the same request without a condition would overwrite what others wrote. */
export function requireConditional(adapter: { readonly guarded?: true; readonly kind: string }, helper: string): void {
  if (!adapter.guarded) return;
  throw new TypeError(`${helper} needs If-Match, which the service does not have for ${adapter.kind}: use leasedUpdate instead`);
}

function isBlockBlob(target: unknown): target is BlockBlobLike {
  const client = target as Partial<BlockBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.upload === "function" && typeof client.download === "function";
}
