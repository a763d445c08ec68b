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

/**
 * 64 bits in hexadecimal, at once and without a thread: two runs of FNV-1a over the UTF-16 code units, each with a final mix. Different
 * texts that a sender confuses have different fingerprints; it does not resist one who looks for two texts with the same.
 */
export function fingerprint(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9747b28c];
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995) ^ (b >>> 15);
  }
  return [a ^ text.length, b].map((half) => mix(half).toString(16).padStart(8, "0")).join("");
}

function mix(value: number): number {
  const first = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return (second ^ (second >>> 16)) >>> 0;
}
