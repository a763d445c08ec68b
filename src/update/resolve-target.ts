import type { BlockBlobLike } from "../clients.js";
import type { GroupSettings } from "./group-commit.js";
import { adapterOf } from "./target.js";
import type { TargetAdapter, UpdateTarget } from "./target.js";
import { jsonBlob } from "./targets/blob-content.js";

/** The adapter behind what a caller passed as a target: a target, or a block-blob client that means a JSON document. */
export function resolveTarget<T>(target: UpdateTarget<T> | BlockBlobLike, settings: GroupSettings): TargetAdapter<T, unknown> {
  const adapter = adapterOf(target) ?? (isBlockBlob(target) ? adapterOf(jsonBlob(target)) : undefined);
  if (!adapter) {
    throw new TypeError("not a target: pass a BlockBlobClient, or what jsonBlob(), tableEntity(), ... return");
  }
  if (settings.leaseId !== undefined && adapter.kind.startsWith("table")) {
    throw new TypeError("conditions.leaseId: table entities have no leases");
  }
  return adapter as TargetAdapter<T, unknown>;
}

function isBlockBlob(target: unknown): target is BlockBlobLike {
  const client = target as Partial<BlockBlobLike> | null | undefined;
  return typeof client === "object" && typeof client?.upload === "function" && typeof client.download === "function";
}
