import type { TableCallOptions, TableEntityLike, TableLike } from "../clients/table.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { isNotFound } from "../core/storage-errors.js";
import { checkOptions, requireETag, withMembers } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { hasProperties } from "./content.js";
import { isEdmType } from "./edm.js";
import type { EdmType } from "./edm.js";
import { journalLimitError, journalWithin, parseJournal, requireJournalName } from "./journal.js";
import type { Journal } from "./journal.js";
import { containsChange, entityDiff, entityIn, entitySize, entityUrl, entityValue, equalStored, partitionUrl, removesProperty, separateCollisions, storedFromResponse, storedFromValue } from "./stored-entity.js";
import type { StoredEntity } from "./stored-entity.js";
import { checkNotOwnRow } from "./library-rows.js";
import { requireClient, targetOf } from "./target.js";
import type { AnyInput, RequestContext, UpdateTarget } from "./target.js";
import { quotedText } from "../errors.js";

/** The keys of an entity. See {@link tableEntity}. */
export interface EntityKey {
  /** Groups entities that can be written in one transaction. */
  readonly partitionKey: string;
  /** Identifies the entity within its partition. */
  readonly rowKey: string;
}

/** An entity that the SDK returned, which declares its keys as optional. A missing key is a `TypeError`. See {@link tableEntity}. */
export interface EntityKeyLike {
  /** Must be there. */
  readonly partitionKey?: string | undefined;
  /** Must be there. */
  readonly rowKey?: string | undefined;
}

/** An entity as it is read: its properties, and its keys, which a mutator must not change. See {@link tableEntity}. */
export type Entity<T extends object = Record<string, unknown>> = T & EntityKey;

/** The properties of an entity that the SDK returned, without its keys and what the SDK adds. See {@link tableEntity}. */
export type PropertiesOf<E> = {
  [K in keyof E as K extends
    | keyof EntityKey
    | "etag"
    | "timestamp"
    | "odata.metadata"
    | "clientRequestId"
    | "requestId"
    | "version"
    | "date"
    | "contentType"
    | "preferenceApplied"
    | "xMsContinuationNextPartitionKey"
    | "xMsContinuationNextRowKey"
    ? never
    : K]: E[K];
};

/** Options of {@link tableEntity}. */
export interface TableEntityOptions {
  /**
   * The Edm types of properties for which JavaScript has no type: `{ price: "Double" }` stores 5 as 5.0.
   * @defaultValue none: an existing property keeps its type, a new one gets it from its value
   */
  types?: Readonly<Record<string, EdmType>> | undefined;
}

const optionNames: OptionNames<TableEntityOptions> = { types: 1 };

/**
 * One entity of a table, by its keys. Updates send only the properties that changed.
 *
 * @example
 * ```ts
 * const customer = tableEntity<{ email: string; visits: number }>(table, "customers", "42");
 * await optimisticUpdate(customer, (draft) => { draft.visits++; }, { initial: { email: "a@example.com", visits: 0 } });
 * ```
 * @throws `TypeError` or `RangeError` if `table` is not a table client, a key cannot be stored, or an option is unknown.
 */
export function tableEntity<T extends object = Record<string, unknown>>(
  table: TableLike,
  partitionKey: string,
  rowKey: string,
  options?: TableEntityOptions,
): UpdateTarget<Entity<T>, T>;
/**
 * One entity of a table, by an entity that was read before. Only its keys are used; its type is taken over.
 *
 * @example
 * ```ts
 * const order = await table.getEntity<Order>("eu", "42");
 * await optimisticUpdate(tableEntity(table, order), (draft) => { draft.total++; });
 * ```
 * @throws `TypeError` or `RangeError` if `table` is not a table client, a key is missing, or an option is unknown.
 */
export function tableEntity<E extends EntityKeyLike>(
  table: TableLike,
  entity: E,
  options?: TableEntityOptions,
): UpdateTarget<Entity<PropertiesOf<E>>, PropertiesOf<E>>;
export function tableEntity(
  table: TableLike,
  key: string | EntityKeyLike,
  rowKeyOrOptions?: string | TableEntityOptions,
  last?: TableEntityOptions,
): UpdateTarget<AnyInput, AnyInput> {
  requireClient("tableEntity", table, "a TableClient");
  const byEntity = typeof key === "object" && (key as object | null) !== null;
  const options = (byEntity ? rowKeyOrOptions : last) as TableEntityOptions | undefined;
  checkOptions("tableEntity", options, optionNames);
  // A key of a wrong type is rejected by `entityTarget`.
  return entityTarget(table, byEntity ? keysOf(key) : { partitionKey: key as string, rowKey: rowKeyOrOptions as string }, options ?? {});
}

/** One row of the library, whose key the calls of users reject. */
export function ownEntity<T extends object>(table: TableLike, key: EntityKey): UpdateTarget<Entity<T>, T> {
  return entityTarget(table, key, {}, true) as unknown as UpdateTarget<Entity<T>, T>;
}

/** The keys of an entity that was read. */
export function keysOf({ partitionKey, rowKey }: EntityKeyLike): EntityKey {
  if (partitionKey === undefined || rowKey === undefined) throw new TypeError("The entity must have a partitionKey and a rowKey.");
  return { partitionKey, rowKey };
}

/** What the SDK and the service treat as something else than a property: a journal of this name would replace it. */
const systemNames = ["partitionKey", "PartitionKey", "rowKey", "RowKey", "etag", "timestamp", "Timestamp"];

/** The limits of the service for one entity. The properties do not include keys and timestamp. */
const maxProperties = 252;
const maxEntityInBytes = 1_048_576;

function entityTarget(table: TableLike, { partitionKey, rowKey }: EntityKey, options: TableEntityOptions, isOwn = false): UpdateTarget<Entity, object> {
  checkKey("partitionKey", partitionKey);
  checkKey("rowKey", rowKey);
  if (!isOwn) checkNotOwnRow(rowKey);
  const types = checkTypes(options.types ?? {});
  const url = entityUrl(table, partitionKey, rowKey);

  /** The ETag of the tombstone that a transaction stored in place of a deleted entity. While it exists, a create replaces it. */
  let tombstone: string | undefined;

  /** The options of one request. Counts the request. */
  function tableOptions(context: RequestContext): TableCallOptions {
    context.onRequest?.();
    return {
      abortSignal: context.abortSignal,
      ...(context.tracingOptions && { tracingOptions: context.tracingOptions }),
    };
  }

  /** `stored`: the entity after the write, which the service limits in size. */
  function toSend(properties: object, stored: StoredEntity, journal: Journal | undefined, context: RequestContext, storedJournal?: unknown): TableEntityLike {
    const entity: TableEntityLike = withMembers(properties, { partitionKey, rowKey });
    if (journal) {
      requireJournalName(context.journalName, [...systemNames, ...stored.keys()], storedJournal, url);
      entity[context.journalName] = journalFor(stored, journal, context.journalName);
    }
    return entity;
  }

  function journalFor(stored: StoredEntity, journal: Journal, name: string): string {
    if (stored.size >= maxProperties) throw journalLimitError({ url, limit: "properties", need: `${maxProperties} properties` });
    const used = entitySize(stored, partitionKey, rowKey) + entitySize(new Map([[name, { type: "String", value: "" }]]), "", "") - 4;
    return journalWithin(journal, Math.floor((maxEntityInBytes - used) / 2), { url, limit: "entity", need: "1 MiB for an entity" });
  }

  return targetOf<Entity, StoredEntity, object>({
    kind: "tableEntity",
    url,
    partition: partitionUrl(table, partitionKey),
    credentialScope: credentialScopeOf(table),
    key: JSON.stringify(["tableEntity", table.url, table.tableName, partitionKey, rowKey, types]),
    staleETag: `W/"datetime'2000-01-01T00%3A00%3A00.0000000Z'"`,
    journaled: true,
    validate: undefined,
    decode: (raw) => entityValue(raw, partitionKey, rowKey) as Entity,
    encode: (value, previous) => encodeEntity(value, previous, { partitionKey, rowKey }, types),
    equals: equalStored,
    containsChange,

    async read(context) {
      let bodyText: string | undefined;
      try {
        const response = await table.getEntity(partitionKey, rowKey, {
          disableTypeConversion: true,
          onResponse: (raw) => (bodyText = raw.bodyAsText ?? undefined),
          ...tableOptions(context),
        });
        const [entity = response] = separateCollisions([response], bodyText);
        const row = new Map(storedFromResponse(entity, bodyText));
        const journalText = row.get(context.journalName)?.value;
        row.delete(context.journalName);
        const stored = entityIn(row);
        const { etag } = entity as { etag?: string };
        tombstone = stored ? undefined : requireETag(etag, url);
        if (!stored) return undefined;
        return { raw: stored, etag: requireETag(etag, url), journal: parseJournal(journalText), keep: journalText };
      } catch (error) {
        if (isNotFound(error)) return (tombstone = undefined);
        throw error;
      }
    },

    async write(base, raw, journal, context) {
      const { mode, properties } = entityDiff(base.raw, raw);
      const entity = toSend(properties, raw, journal, context, base.keep);
      // A Replace by a writer that does not journal must not drop the journal of other writers.
      if (!journal && mode === "Replace" && base.keep !== undefined) entity[context.journalName] = base.keep;
      const { etag } = await table.updateEntity(entity, mode, { etag: base.etag, ...tableOptions(context) });
      return { raw, etag: requireETag(etag, url), journal, keep: base.keep };
    },

    async create(raw, journal, context) {
      const entity = toSend(Object.fromEntries(raw), raw, journal, context);
      const { etag } = await (tombstone === undefined
        ? table.createEntity(entity, tableOptions(context))
        : table.updateEntity(entity, "Replace", { etag: tombstone, ...tableOptions(context) }));
      return { raw, etag: requireETag(etag, url), journal };
    },

    async delete(etag, context) {
      await table.deleteEntity(partitionKey, rowKey, { etag, ...tableOptions(context) });
    },

    async overwrite(raw, context, { ifMatch, journal }) {
      const entity = toSend(Object.fromEntries(raw), raw, journal, context);
      const options = tableOptions(context);
      const { etag } = await (ifMatch === undefined
        ? table.upsertEntity(entity, "Replace", options)
        : table.updateEntity(entity, "Replace", { etag: ifMatch, ...options }));
      return requireETag(etag, url);
    },
  });
}

/** The stored form of what a mutator returned, or of an initial value. Throws a `TypeError` if it is not this entity. */
export function encodeEntity(
  value: unknown,
  previous: StoredEntity | undefined,
  { partitionKey, rowKey }: EntityKey,
  types: Readonly<Record<string, EdmType>>,
): StoredEntity {
  if (!hasProperties(value)) throw new TypeError("An entity must be an object with properties.");
  checkSameKey("partitionKey", value, partitionKey, previous !== undefined);
  checkSameKey("rowKey", value, rowKey, previous !== undefined);
  if (previous) checkNotSet(value, ["etag", "timestamp"]);
  const stored = storedFromValue(value, previous, types);
  if (previous) removesProperty(previous, stored); // of this mutator, not of the whole batch
  return stored;
}

const forbiddenInKeys = /[/\\#?\u0000-\u001f\u007f-\u009f]/;

/** The service rejects these characters in keys with a plain 400. Checking them before the request gives a clear message. */
export function checkKey(name: string, key: string): void {
  if (typeof key !== "string") throw new TypeError(`${name} must be a string.`);
  if (forbiddenInKeys.test(key)) {
    throw new RangeError(`${name} ${quotedText(key)}: keys cannot contain / \\ # ? or control characters.`);
  }
  if (/\p{Surrogate}/u.test(key)) throw new RangeError(`${name}: keys must be well-formed Unicode.`);
  if (key.length > 512) throw new RangeError(`${name}: keys can have at most 512 characters.`);
}

function checkSameKey(name: "partitionKey" | "rowKey", value: object, key: string, exists: boolean): void {
  const given = (value as Record<string, unknown>)[name];
  if (given === undefined || given === key) return;
  const found = `${name} ${quotedText(given)}`;
  throw new TypeError(
    exists
      ? `The mutator returned an entity with the ${found}: an update cannot change a key.`
      : `The value to be created has the ${found}, but the target has ${quotedText(key)}: leave it out.`,
  );
}

export function checkTypes(types: Readonly<Record<string, EdmType>>): Readonly<Record<string, EdmType>> {
  for (const [name, type] of Object.entries(types)) {
    if (!isEdmType(type)) throw new RangeError(`types.${name}: ${JSON.stringify(type)} is not an Edm type.`);
  }
  return { ...types };
}

/** The service sets these properties. A draft does not have them: the mutator set one, or copied an entity of the SDK. */
function checkNotSet(value: object, names: readonly string[]): void {
  for (const name of names) {
    if ((value as Record<string, unknown>)[name] !== undefined) throw new TypeError(`The service sets ${name}: leave it out of the entity.`);
  }
}
