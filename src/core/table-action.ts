import type { TableAction, TransactionActionLike } from "../clients/table.js";

/** The actions as `submitTransaction()` accepts them, all in one partition. @throws `RangeError` if an entity is of another partition. */
export function actionsIn(partitionKey: string, actions: readonly TableAction[], call: string): TransactionActionLike[] {
  return actions.map(([kind, input, mode = "Merge", condition]) => {
    const entity = { ...input, partitionKey: input.partitionKey ?? partitionKey };
    if (entity.partitionKey !== partitionKey) {
      throw new RangeError(
        `${call}: the entity ${JSON.stringify(input.rowKey)} is in partition ${JSON.stringify(entity.partitionKey)}, ` +
          `but all entities must be in partition ${JSON.stringify(partitionKey)}. Leave out the partition key.`,
      );
    }
    if (kind === "create" || kind === "delete") return [kind, entity];
    return condition?.etag === undefined ? [kind, entity, mode] : [kind, entity, mode, { etag: condition.etag }];
  });
}
