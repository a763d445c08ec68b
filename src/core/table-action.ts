import type { TableAction, TransactionActionLike } from "../clients/table.js";
import { quotedText } from "../errors.js";

/**
 * The actions as `submitTransaction()` accepts them, all in one partition.
 * @throws `TypeError` if it is not an array of actions.
 * @throws `RangeError` if an entity is of another partition.
 */
export function actionsIn(partitionKey: string, actions: readonly TableAction[], call: string): TransactionActionLike[] {
  const given: unknown = actions;
  if (!Array.isArray(given)) throw new TypeError(`${call}: actions must be an array`);
  for (const action of given) checkAction(action, call);
  return actions.map(([kind, input, mode = "Merge", condition]) => {
    const entity = { ...input, partitionKey: input.partitionKey ?? partitionKey };
    if (entity.partitionKey !== partitionKey) {
      throw new RangeError(
        `${call}: the entity ${quotedText(input.rowKey)} is in partition ${quotedText(entity.partitionKey)}, ` +
          `but all entities must be in partition ${quotedText(partitionKey)}. Leave out the partition key.`,
      );
    }
    if (kind === "create" || kind === "delete") return [kind, entity];
    return condition?.etag === undefined ? [kind, entity, mode] : [kind, entity, mode, { etag: condition.etag }];
  });
}

/** A client may ignore what it does not know: the transaction would commit without an effect, or without its condition. */
function checkAction(action: unknown, call: string): void {
  if (!Array.isArray(action)) throw new TypeError(`${call}: actions must be an array of actions, and each action an array: ["create", entity]`);
  const [kind, entity, mode, condition, ...rest] = action as readonly unknown[];
  const isWrite = kind === "update" || kind === "upsert";
  if (!isWrite && kind !== "create" && kind !== "delete") {
    throw new TypeError(`${call}: the kind of an action must be "create", "update", "upsert" or "delete"; got ${typeof kind === "string" ? quotedText(kind) : typeof kind}`);
  }
  if (typeof entity !== "object" || entity === null) throw new TypeError(`${call}: the entity of the ${kind} must be an object`);
  const surplus = isWrite ? rest : [mode, condition, ...rest];
  if (surplus.some((element) => element !== undefined)) {
    throw new TypeError(`${call}: a ${kind} has ${isWrite ? "the entity, a mode and a condition" : "the entity"}, and no other element`);
  }
  if (!isWrite) return;
  if (mode !== undefined && mode !== "Merge" && mode !== "Replace") {
    throw new TypeError(`${call}: the mode of the ${kind} must be "Merge" or "Replace"; got ${typeof mode === "string" ? quotedText(mode) : typeof mode}`);
  }
  if (condition === undefined) return;
  const etag = typeof condition === "object" && condition !== null ? (condition as { etag?: unknown }).etag : condition;
  if (typeof condition !== "object" || condition === null || (etag !== undefined && typeof etag !== "string")) {
    throw new TypeError(`${call}: the condition of the ${kind} must be an object with an etag: { etag }`);
  }
  // The service would ignore it, and overwrite any version.
  if (kind === "upsert" && etag !== undefined) throw new TypeError(`${call}: an upsert cannot have an ETag: use an update`);
}
