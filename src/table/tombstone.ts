import type { StoredEntity } from "./stored-entity.js";

/** Marks a row whose entity was deleted by a transaction, until the row is removed. */
export const tombstoneName = "asc_tombstone";

/** Whether a row stands for an entity that is not there. */
export function isTombstone(stored: StoredEntity): boolean {
  return stored.has(tombstoneName);
}
