import type { EdmValue } from "./edm.js";
import type { StoredEntity } from "./stored-entity.js";

/** What an entity takes up by the service's own reckoning: two bytes a character, and a few for each property. */
export function entitySize(stored: StoredEntity, partitionKey: string, rowKey: string): number {
  let bytes = 4 + (partitionKey.length + rowKey.length) * 2;
  for (const [name, property] of stored) bytes += 8 + name.length * 2 + valueSize(property);
  return bytes;
}

function valueSize({ type, value }: EdmValue): number {
  switch (type) {
    case "String":
      return String(value).length * 2 + 4;
    case "Binary":
      return Math.ceil((String(value).length * 3) / 4) + 4;
    case "Guid":
      return 16;
    case "Boolean":
      return 1;
    case "Int32":
      return 4;
    default:
      return 8;
  }
}
