import { defaultJournalName } from "./journal.js";
import { tombstoneName } from "./stored-entity.js";

/** The row keys of the library's own rows begin with this, and with a lower-case letter after it. */
export const ownRowPrefix = "~asc~";

export function isOwnRow(rowKey: string): boolean {
  return rowKey.startsWith(ownRowPrefix);
}

/** Throws for the key of a row of the library: the calls of the library do not show such rows, and rely on what is stored in them. */
export function checkNotOwnRow(rowKey: string): void {
  if (isOwnRow(rowKey)) throw new RangeError(`Row keys that begin with ${ownRowPrefix} are reserved for the library.`);
}

/**
 * Whether a row that a table client returned belongs to the library, and not to the application: a row of a lock, of an inbox or of
 * transactions, or what a deleted entity left behind. Sends no request.
 *
 * @example
 * ```ts
 * for await (const entity of table.listEntities()) {
 *   if (!isLibraryRow(entity)) console.log(entity.rowKey);
 * }
 * ```
 */
export function isLibraryRow(entity: { readonly rowKey?: string | undefined }): boolean {
  return isOwnRow(entity.rowKey ?? "") || isTombstone(entity);
}

/**
 * An OData filter that leaves out the rows of the library; combined with `filter` if one is given. It has three comparisons, of the
 * 15 that the service allows in a filter.
 *
 * A comparison with a property that an entity does not have is false, so its negation is true: entities without the marker of
 * deleted entities are returned. An entity that another program has merged into such a row still has the marker, and is left out
 * until the library writes it again; {@link listEntities} returns it.
 *
 * @example
 * ```ts
 * const orders = table.listEntities({ queryOptions: { filter: excludeLibraryRows("total gt 100") } });
 * ```
 * @throws `TypeError` if the filter is not a string.
 */
export function excludeLibraryRows(filter?: string): string {
  const given: unknown = filter;
  if (given !== undefined && typeof given !== "string") throw new TypeError("excludeLibraryRows: filter must be a string");
  const others = `(RowKey lt ${quoted(ownRowPrefix)} or RowKey ge ${quoted(`${ownRowPrefix}~`)}) and not (${tombstoneName} eq true)`;
  return filter?.trim() ? `(${filter}) and ${others}` : others;
}

/** Whether the row stands for a deleted entity. If another program has merged properties into it, it is an entity again. */
export function isTombstone(entity: object): boolean {
  return textOf(entity, tombstoneName) === "true" && Object.keys(entity).every((name) => tombstoneMembers.has(name) || name.includes("odata."));
}

const tombstoneMembers: ReadonlySet<string> = new Set(["partitionKey", "rowKey", "etag", "timestamp", tombstoneName, defaultJournalName]);

/** A property of a row that the SDK returned: a value, or with `disableTypeConversion` an object with its text. */
export function textOf(entity: object, name: string): string {
  const property = (entity as Record<string, unknown>)[name];
  return String(typeof property === "object" ? (property as { value?: unknown } | null)?.value : property);
}

/** A string literal of a filter. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
