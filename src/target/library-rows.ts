import type { TableResponseLike } from "../clients/table.js";
import { defaultJournalName } from "./journal.js";
import { tombstoneName } from "./stored-entity.js";

/** The row keys of the library's own rows begin with this, and with a lower-case letter after it. */
export const ownRowPrefix = "~asc~";

export function isOwnRow(rowKey: unknown): boolean {
  return typeof rowKey === "string" && rowKey.startsWith(ownRowPrefix);
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
 * @throws `TypeError` if it is not an object.
 */
export function isLibraryRow(entity: { readonly rowKey?: string | undefined }): boolean {
  if (typeof entity !== "object" || (entity as object | null) === null) throw new TypeError("isLibraryRow needs an entity");
  return isOwnRow(entity.rowKey) || isTombstone(entity);
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

/**
 * The time of the service, as its responses tell it. The clock of this host may be wrong by days: a purge that trusted it would delete what
 * was written a moment ago.
 */
export class ServiceTime {
  #date: number | undefined;

  /** For the SDK: called with each response. */
  readonly onResponse = ({ headers }: TableResponseLike): void => {
    const date = Date.parse(headers?.get("date") ?? "");
    if (!Number.isNaN(date)) this.#date = date;
  };

  /** The same, if a response had the header. */
  get certain(): number | undefined {
    return this.#date;
  }

  /** When the service sent its last response, in whole seconds. Without the header, which a proxy may have removed: the time of this host. */
  get now(): number {
    return this.#date ?? Date.now();
  }

  /** Whether the row may have been last written at least `ageInMs` ago. The header has whole seconds. */
  isOlder(row: object, ageInMs: number): boolean {
    const writtenAt = Date.parse(textOf(row, "timestamp"));
    return this.#date === undefined || Number.isNaN(writtenAt) || this.#date + 1_000 - writtenAt >= ageInMs;
  }
}

/**
 * The filter of rows that were last written at least `ageInMs` ago. The service's timestamps are finer than milliseconds: a row
 * that was written in the last millisecond of that time is included, as the caller may have had the response before it began to purge.
 */
export function notModifiedFor(ageInMs: number): string {
  return `Timestamp lt datetime${quoted(new Date(Date.now() - ageInMs + 1).toISOString())}`;
}

/**
 * A condition of the caller, within a condition of the library: it must not close a parenthesis that it has not opened, or a text of a user
 * in it could add rows of other partitions.
 *
 * @throws `RangeError` if its quotes or parentheses do not match.
 */
export function withinFilter(call: string, filter: string): string {
  if (typeof filter !== "string") throw new TypeError(`${call}: filter must be a string.`);
  let depth = 0;
  let isOpen = false;
  for (const char of filter) {
    if (char === "'") isOpen = !isOpen;
    else if (isOpen) continue;
    else if (char === "(") depth++;
    else if (char === ")" && --depth < 0) break;
  }
  if (depth !== 0 || isOpen) throw new RangeError(`${call}: the quotes or parentheses of filter do not match. In a text, write each ' twice.`);
  return `(${filter})`;
}
