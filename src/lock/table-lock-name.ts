import { sha256 } from "../core/identity.js";

/** What a {@link TableLock} locks: a table, a partition or an entity. */
export interface LockedRows {
  readonly table: string;
  readonly partitionKey?: string | undefined;
  readonly rowKey?: string | undefined;
}

/** The name of its lock. Keys may be long, and the length of lock names is limited: a hash replaces a name that is too long. */
export async function tableLockName({ table, partitionKey, rowKey }: LockedRows): Promise<string> {
  const name = JSON.stringify(["table", table, partitionKey, rowKey].filter((part) => part !== undefined));
  return new TextEncoder().encode(name).length * 3 < 900 ? name : `table-sha256-${await sha256(name)}`;
}

/** What the lock with this name locks. Undefined: it is not the lock of a table, or its keys are not in its name. */
export function lockedRowsOf(name: string): LockedRows | undefined {
  if (!name.startsWith('["table",')) return undefined;
  let parts: unknown;
  try {
    parts = JSON.parse(name);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parts) || parts.length > 4 || !parts.every((part): part is string => typeof part === "string")) return undefined;
  const [, table, partitionKey, rowKey] = parts;
  return table === undefined ? undefined : { table, partitionKey, rowKey };
}
