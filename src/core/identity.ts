const ids = new WeakMap<object, number>();
let next = 1;

/** A number that identifies an object in a string key. Does not keep the object alive. */
export function identityOf(object: object): number {
  let id = ids.get(object);
  if (id === undefined) ids.set(object, (id = next++));
  return id;
}

/** SHA-256 in hexadecimal. Replaces names that are too long. */
export async function sha256(text: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
