/** An idempotency key: any text, within reason, as it travels with the message. */
export function checkKey(name: string, key: unknown): string {
  if (typeof key !== "string") throw new TypeError(`${name} must be a string`);
  if (key.length === 0 || key.length > 1_024) throw new RangeError(`${name} must have 1 to 1024 characters; got ${key.length}`);
  return key;
}
