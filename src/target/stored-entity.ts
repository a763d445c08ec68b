import { deepEqual } from "fast-equals";
import { redactUrl } from "../core/telemetry.js";
import { hasProperties } from "./content.js";
import { fromEdm, isEdmType, toEdm } from "./edm.js";
import type { EdmType, EdmValue } from "./edm.js";
import { defaultJournalName, parseJournal } from "./journal.js";
import { quotedText } from "../errors.js";

/** The properties of an entity as they are stored, without keys, ETag and timestamp. */
export type StoredEntity = ReadonlyMap<string, EdmValue>;

/** The names that the SDK gives to what is not a property of the entity, and the names of the service. */
const systemMembers: ReadonlyMap<string, string> = new Map([
  ["partitionKey", "PartitionKey"],
  ["rowKey", "RowKey"],
  ["etag", "odata.etag"],
  ["timestamp", "Timestamp"],
]);

/** Properties that the SDK mistakes for its own members. */
const collisions: unique symbol = Symbol("properties that collide with members of the SDK");
const mayCollide = /"(?:partitionKey|rowKey|etag|timestamp)"\s*:/;

/**
 * Entities as the SDK returned them with `disableTypeConversion: true`, and the text that they were parsed from. The service accepts
 * properties with the names that the SDK uses for keys, ETag and timestamp. The SDK then returns the property in place of the
 * ETag: what the service says is restored, and such properties are kept apart. They can be neither read nor written with the SDK.
 */
export function separateCollisions(entities: readonly object[], bodyText: string | undefined): readonly object[] {
  if (bodyText === undefined || !mayCollide.test(bodyText)) return entities;
  const body = JSON.parse(bodyText) as object & { value?: unknown };
  const found = (Array.isArray(body.value) ? body.value : [body]) as Record<string, unknown>[];
  return entities.map((entity, index) => {
    const stored = found[index] ?? {};
    const system: Record<string, unknown> = {};
    const collided = new Map<string, EdmValue>();
    for (const [ours, theirs] of systemMembers) {
      if (!Object.hasOwn(stored, ours)) continue;
      system[ours] = stored[theirs];
      collided.set(ours, { type: "String", value: String(stored[ours]), unsendable: true });
    }
    return collided.size === 0 ? entity : { ...entity, ...system, [collisions]: collided };
  });
}

/**
 * The stored form of what `getEntity({ disableTypeConversion: true })` returned, and of the text that it was parsed from. The
 * text is needed because a double without a fraction is `5.0` on the wire, but `5` once it is parsed, so the SDK treats it as
 * an Int32.
 */
export function storedFromResponse(entity: object, bodyText: string | undefined): StoredEntity {
  return storedFrom(entity, () => doublesIn(bodyText ?? "")[0]);
}

/** The same for a page of `listEntities({ disableTypeConversion: true })`. */
export function storedFromPage(entities: readonly object[], bodyText: string | undefined): StoredEntity[] {
  let doubles: ReadonlySet<string>[] | undefined;
  return entities.map((entity, index) => storedFrom(entity, () => (doubles ??= doublesIn(bodyText ?? ""))[index]));
}

function storedFrom(entity: object, findDoubles: () => ReadonlySet<string> | undefined): StoredEntity {
  const stored = new Map<string, EdmValue>();
  let doubles: ReadonlySet<string> | undefined;
  for (const [name, property] of Object.entries(entity)) {
    if (systemMembers.has(name) || name.includes("odata.") || !isStored(property)) continue;
    let { type } = property;
    if (type === "Int32") {
      doubles ??= findDoubles() ?? new Set<string>();
      if (doubles.has(name)) type = "Double";
    }
    stored.set(name, toEdm(name, { type: wideEnough(type, property.value), value: property.value }, undefined, undefined));
  }
  for (const [name, property] of (entity as { [collisions]?: StoredEntity })[collisions] ?? []) stored.set(name, property);
  return stored;
}

function isStored(property: unknown): property is { type: EdmType; value: unknown } {
  return typeof property === "object" && property !== null && "type" in property && isEdmType(property.type);
}

/** The SDK treats every whole number as an Int32. */
function wideEnough(type: EdmType, value: unknown): EdmType {
  return type === "Int32" && (Number(value) | 0) !== Number(value) ? "Double" : type;
}

const member = /"([^"\\]*(?:\\.[^"\\]*)*)"\s*:\s*(?:"[^"\\]*(?:\\.[^"\\]*)*"|(-?\d[\d.eE+-]*)|true|false|null)/g;

/**
 * For each entity in the text, the properties whose number is written as a double. Entities are flat, so scanning the members
 * is sufficient, and each entity begins with its ETag.
 */
function doublesIn(bodyText: string): ReadonlySet<string>[] {
  const entities: Set<string>[] = [];
  for (const [, name = "", literal] of bodyText.matchAll(member)) {
    if (name === "odata.etag") entities.push(new Set());
    else if (literal && /[.eE]/.test(literal)) entities.at(-1)?.add(JSON.parse(`"${name}"`) as string);
  }
  return entities;
}

/** The value that a mutator gets. */
export function entityValue(stored: StoredEntity, partitionKey: string, rowKey: string): Record<string, unknown> {
  const properties = [...stored].filter(([, { unsendable }]) => !unsendable).map(([name, property]) => [name, fromEdm(property)] as const);
  return Object.fromEntries([["partitionKey", partitionKey], ["rowKey", rowKey], ...properties]);
}

/**
 * The stored form of a value. An unchanged property keeps its exact stored form (ticks of a DateTime, the type of a number).
 * `null` and `undefined` remove the property: tables store no nulls.
 */
export function storedFromValue(
  value: object,
  previous: StoredEntity | undefined,
  types: Readonly<Record<string, EdmType>>,
): StoredEntity {
  if (!hasProperties(value)) throw new TypeError("An entity must be an object with properties.");
  const stored = new Map<string, EdmValue>();
  for (const [name, property] of Object.entries(value)) {
    if (systemMembers.has(name) || annotations.has(name) || property === undefined || property === null) continue;
    const before = previous?.get(name);
    if (before) {
      const seen = fromEdm(before);
      if (Object.is(seen, property) || (typeof property === "object" && deepEqual(seen, property))) {
        stored.set(name, before);
        continue;
      }
    } else checkName(name);
    if (reservedNames.has(name)) throw new TypeError(`The property ${name} is reserved for the library: rename it.`);
    stored.set(name, toEdm(name, property, ownType(types, name), before?.type));
  }
  // What the caller cannot see stays.
  for (const [name, property] of previous ?? []) if (property.unsendable) stored.set(name, property);
  return stored;
}

/** Ignores inherited members: a property may be called `valueOf`. */
function ownType(types: Readonly<Record<string, EdmType>>, name: string): EdmType | undefined {
  return Object.hasOwn(types, name) ? types[name] : undefined;
}

/** What the service adds to an entity, and the SDK returns with it. */
const annotations: ReadonlySet<string> = new Set(["odata.metadata", "odata.type", "odata.id", "odata.etag", "odata.editLink"]);

const propertyName = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*$/u;

/** The service's names of the keys and the timestamp; a property of that name would be lost. */
const systemNames: ReadonlySet<string> = new Set(["PartitionKey", "RowKey", "Timestamp"]);

function checkName(name: string): void {
  // __proto__ would be lost in the SDK, which assigns it as a property.
  if (!propertyName.test(name) || name.length > 255 || name === "__proto__" || systemNames.has(name)) {
    throw new TypeError(`${quotedText(name)} is not a property name: it must consist of at most 255 letters, digits and _.`);
  }
}

export function equalStored(a: StoredEntity, b: StoredEntity): boolean {
  return a.size === b.size && [...a].every(([name, property]) => isSame(property, b.get(name)));
}

/** Whether a property has the value that the change from `base` to `draft` gave it. Undefined: the entity does not exist. */
export function containsChange(stored: StoredEntity | undefined, draft: StoredEntity | undefined, base: StoredEntity | undefined): boolean {
  if (!stored || !draft || !base) return stored === draft;
  const names = new Set([...base.keys(), ...draft.keys()]);
  const isEqual = (a: EdmValue | undefined, b: EdmValue | undefined): boolean => (a ? isSame(a, b) : a === b);
  return [...names].some((name) => !isEqual(draft.get(name), base.get(name)) && isEqual(stored.get(name), draft.get(name)));
}

function isSame(a: EdmValue, b: EdmValue | undefined): boolean {
  return b?.type === a.type && Object.is(b.value, a.value);
}

/**
 * The update that changes one stored form to the other: a Merge of the changed properties, which leaves all others as they
 * are, or a Replace of the entity if a property was removed, which a Merge cannot do. A Merge would also leave the marker of a
 * tombstone that another client has merged an entity into.
 */
export function entityDiff(from: StoredEntity, to: StoredEntity): { mode: "Merge" | "Replace"; properties: Record<string, EdmValue> } {
  const removed = removesProperty(from, to) || (hasMarker(from) && ![...to.values()].some(({ unsendable }) => unsendable));
  const send = removed ? [...to] : [...to].filter(([name, property]) => !isSame(property, from.get(name)));
  return { mode: removed ? "Replace" : "Merge", properties: Object.fromEntries(send) };
}

/** Throws if a property was removed, and the Replace that this needs would lose another one. */
export function removesProperty(from: StoredEntity, to: StoredEntity): boolean {
  const removed = [...from.keys()].find((name) => !to.has(name));
  const lost = removed === undefined ? undefined : [...to].find(([, { unsendable }]) => unsendable);
  if (!lost) return removed !== undefined;
  throw new TypeError(
    `The property ${quotedText(removed)} cannot be removed: the entity also has a property ${quotedText(lost[0])}, a name that the SDK cannot write, and that would be lost. Assign another value to ${quotedText(removed)}, or rename the property ${quotedText(lost[0])}.`,
  );
}

/** The size of an entity as the service calculates it: two bytes per character, and a few for each property. */
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

/** Marks a row whose entity was deleted by a transaction, until the row itself is deleted. */
export const tombstoneName = "asc_tombstone";

/** A property of a caller under one of these would be taken for the library's own. */
const reservedNames: ReadonlySet<string> = new Set([defaultJournalName, tombstoneName]);

/**
 * The entity in a row; undefined: the row is the tombstone of a deleted one. A client that does not know tombstones may have merged
 * properties into it: then it is an entity again.
 */
export function entityIn(row: StoredEntity): StoredEntity | undefined {
  if (!row.has(tombstoneName)) return row;
  const isOwn = ([name, { value }]: readonly [string, EdmValue]): boolean => name === tombstoneName || name === defaultJournalName || parseJournal(value) !== undefined;
  if ([...row].every(isOwn)) return undefined;
  const entity = new Map([...row].filter(([name]) => name !== tombstoneName));
  marked.add(entity);
  return entity;
}

/** The entities whose rows still have the marker of a tombstone. */
const marked = new WeakSet<StoredEntity>();

/** Whether the row of this entity, as it was read, still has the marker of a tombstone. */
export function hasMarker(entity: StoredEntity): boolean {
  return marked.has(entity);
}

interface Named {
  readonly url: string;
  readonly tableName: string;
}

/** The URL of a table in messages and errors, without a signature. */
export function tableUrl(table: Named): string {
  return `${redactUrl(table.url)}/${table.tableName}`;
}

/** The same for one entity. */
export function entityUrl(table: Named, partitionKey: string, rowKey: string): string {
  return `${tableUrl(table)}(PartitionKey='${partitionKey}',RowKey='${rowKey}')`;
}

/** The same for a partition. */
export function partitionUrl(table: Named, partitionKey: string): string {
  return `${tableUrl(table)}(PartitionKey='${partitionKey}')`;
}
