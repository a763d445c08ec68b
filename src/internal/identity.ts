const ids = new WeakMap<object, number>();
let next = 1;

/** A number that stands for an object, so that it can be part of a string key. Keeps the object alive no longer. */
export function identityOf(object: object): number {
  let id = ids.get(object);
  if (id === undefined) ids.set(object, (id = next++));
  return id;
}
