

const ids = new WeakMap<object, number>();
let next = 1;

/** A number that stands for an object, so that it can be part of a string key. Keeps the object alive no longer. */
export function identityOf(object: object): number {
  let id = ids.get(object);
  if (id === undefined) ids.set(object, (id = next++));
  return id;
}

/** In hexadecimal: stands for a name that is too long. */
export async function sha256(text: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
