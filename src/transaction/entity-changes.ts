import type { EdmType } from "../target/edm.js";
import { storedFromValue } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";

/** A copy of what a caller writes: the write may be applied later, when its row has been read, and the caller may reuse its object by then. */
export function copyOf(entity: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entity).map(([name, value]) => [name, copyOfValue(value)]));
}

function copyOfValue(value: unknown): unknown {
  if (value instanceof Date) return new Date(value);
  if (value instanceof Uint8Array) return value.slice();
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype ? { ...value } : value;
}

/** The stored entity with the given properties changed. Undefined and null remove a property. */
export function merge(entity: object, current: StoredEntity, types: Readonly<Record<string, EdmType>>): StoredEntity {
  const given = storedFromValue(entity, current, types);
  const removed = new Set(Object.entries(entity).flatMap(([name, value]) => (value === undefined || value === null ? [name] : [])));
  return new Map([...[...current].filter(([name]) => !removed.has(name)), ...given]);
}
