import type { TableCallOptions, TableEntityLike, TableLike } from "../clients/table.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { isNotFound } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import { isEdmType } from "./edm.js";
import type { EdmType } from "./edm.js";
import { formatJournal, parseJournal } from "./journal.js";
import type { Journal } from "./journal.js";
import { entityDiff, entityUrl, entityValue, equalStored, isTombstone, storedFromResponse, storedFromValue } from "./stored-entity.js";
import type { StoredEntity } from "./stored-entity.js";
import { requireClient, targetOf } from "./target.js";
import type { RequestContext, UpdateTarget } from "./target.js";

/** An entity as a mutator sees it: its keys, which the mutator must not change, and its properties. */
export type Entity<T> = T & { partitionKey: string; rowKey: string };

/** Options of {@link tableEntity}. */
export interface TableEntityOptions {
  /**
   * The Edm types of properties for which JavaScript has no type: `{ price: "Double" }` stores 5 as 5.0. An existing property
   * keeps its type and need not be listed.
   */
  types?: Readonly<Record<string, EdmType>> | undefined;
}

/** One entity of a table. Updates send only the properties that changed. */
export function tableEntity<T extends object = Record<string, unknown>>(
  table: TableLike,
  partitionKey: string,
  rowKey: string,
  options: TableEntityOptions = {},
): UpdateTarget<Entity<T>> {
  requireClient("tableEntity", table, "a TableClient");
  checkKey("partitionKey", partitionKey);
  checkKey("rowKey", rowKey);
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

  function toSend(properties: object, journal: Journal | undefined, context: RequestContext): TableEntityLike {
    const entity: TableEntityLike = { ...properties, partitionKey, rowKey };
    if (journal) entity[context.journalName] = formatJournal(journal);
    return entity;
  }

  return targetOf<Entity<T>, StoredEntity>({
    kind: "tableEntity",
    url,
    credentialScope: credentialScopeOf(table),
    key: JSON.stringify(["tableEntity", table.url, table.tableName, partitionKey, rowKey, types]),
    staleETag: `W/"datetime'2000-01-01T00%3A00%3A00.0000000Z'"`,
    journaled: true,
    check: undefined,
    decode: (raw) => entityValue(raw, partitionKey, rowKey) as Entity<T>,
    encode(value, previous) {
      if (typeof value !== "object" || (value as unknown) === null) throw new TypeError("an entity must be an object");
      checkSameKey("partitionKey", value, partitionKey);
      checkSameKey("rowKey", value, rowKey);
      if (previous) checkNotSet(value, ["etag", "timestamp"]);
      return storedFromValue(value, previous, types);
    },
    equals: equalStored,

    async read(context) {
      let bodyText: string | undefined;
      try {
        const entity = await table.getEntity(partitionKey, rowKey, {
          ...tableOptions(context),
          disableTypeConversion: true,
          onResponse: (raw) => (bodyText = raw.bodyAsText ?? undefined),
        });
        const stored = new Map(storedFromResponse(entity, bodyText));
        const journalText = stored.get(context.journalName)?.value;
        stored.delete(context.journalName);
        const { etag } = entity as { etag?: string };
        tombstone = isTombstone(stored) ? requireETag(etag, url) : undefined;
        if (tombstone !== undefined) return undefined;
        return { raw: stored, etag: requireETag(etag, url), journal: parseJournal(journalText), keep: journalText };
      } catch (error) {
        if (isNotFound(error)) return (tombstone = undefined);
        throw error;
      }
    },

    async write(base, raw, journal, context) {
      const { mode, properties } = entityDiff(base.raw, raw);
      const entity = toSend(properties, journal, context);
      // A Replace by a writer that does not journal must not drop the journal of other writers.
      if (!journal && mode === "Replace" && base.keep !== undefined) entity[context.journalName] = base.keep;
      const { etag } = await table.updateEntity(entity, mode, { ...tableOptions(context), etag: base.etag });
      return { raw, etag: requireETag(etag, url), journal, keep: base.keep };
    },

    async create(raw, journal, context) {
      const entity = toSend(Object.fromEntries(raw), journal, context);
      const { etag } = await (tombstone === undefined
        ? table.createEntity(entity, tableOptions(context))
        : table.updateEntity(entity, "Replace", { ...tableOptions(context), etag: tombstone }));
      return { raw, etag: requireETag(etag, url), journal };
    },

    async delete(etag, context) {
      await table.deleteEntity(partitionKey, rowKey, { ...tableOptions(context), etag });
    },

    async overwrite(raw, context) {
      const entity = toSend(Object.fromEntries(raw), undefined, context);
      const { etag } = await table.upsertEntity(entity, "Replace", tableOptions(context));
      return requireETag(etag, url);
    },
  });
}

const forbiddenInKeys = /[/\\#?\u0000-\u001f\u007f-\u009f]/;

/** The service rejects these characters in keys with a plain 400. Checking them before the request gives a clear message. */
export function checkKey(name: string, key: string): void {
  if (typeof key !== "string") throw new TypeError(`${name} must be a string`);
  if (forbiddenInKeys.test(key)) {
    throw new RangeError(`${name} ${JSON.stringify(key)}: keys cannot hold / \\ # ? or control characters`);
  }
  if (key.length > 512) throw new RangeError(`${name}: keys can have at most 512 characters`);
}

function checkSameKey(name: "partitionKey" | "rowKey", value: object, key: string): void {
  const given = (value as Record<string, unknown>)[name];
  if (given !== undefined && given !== key) {
    throw new TypeError(`the mutator changed ${name} to ${JSON.stringify(given)}: an update cannot move an entity`);
  }
}

export function checkTypes(types: Readonly<Record<string, EdmType>>): Readonly<Record<string, EdmType>> {
  for (const [name, type] of Object.entries(types)) {
    if (!isEdmType(type)) throw new RangeError(`types.${name}: ${JSON.stringify(type)} is no Edm type`);
  }
  return { ...types };
}

/** The service sets these properties. A draft does not have them: the mutator set one, or copied an entity of the SDK. */
function checkNotSet(value: object, names: readonly string[]): void {
  for (const name of names) {
    if ((value as Record<string, unknown>)[name] !== undefined) throw new TypeError(`${name} is set by the service: leave it out of the entity`);
  }
}
