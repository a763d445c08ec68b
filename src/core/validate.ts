import { quotedText } from "../errors.js";

/** Checks of options: misuse is a `TypeError` or `RangeError` before any request is sent. */

export function checkNumber(
  name: string,
  value: number,
  bounds: { min: number; max?: number; integer?: boolean },
): number {
  if (typeof value !== "number" || Number.isNaN(value)) throw new TypeError(`${name} must be a number.`);
  const max = bounds.max ?? Number.POSITIVE_INFINITY;
  if (value < bounds.min || value > max || (bounds.integer && Number.isFinite(value) && !Number.isInteger(value))) {
    const kind = bounds.integer ? "a whole number" : "a number";
    const upper = Number.isFinite(max) ? ` to ${max}` : " or more";
    throw new RangeError(`${name} must be ${kind}, ${bounds.min}${upper}; got ${value}`);
  }
  return value;
}

export function checkOneOf<T extends string>(name: string, value: T, allowed: readonly T[]): T {
  if (!allowed.includes(value)) {
    throw new RangeError(`${name} must be one of ${allowed.map((a) => `"${a}"`).join(", ")}; got ${quotedText(value)}`);
  }
  return value;
}

/** Whether the SDK or an adapter threw this because of its arguments, before it sent anything. */
export function isMisuse(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError;
}

const identifier = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Accepts names that are allowed both as a metadata name and as a table property. Not `__proto__`, `constructor`, ...: every object has those,
 * and what is assigned to them is not sent.
 */
export function checkIdentifier(name: string, value: string): string {
  if (typeof value !== "string" || !identifier.test(value) || value.length > 128 || value in Object.prototype) {
    throw new RangeError(`${name} must be an identifier (letters, digits, _; at most 128); got ${quotedText(value)}`);
  }
  return value;
}

/** How long a call and each of its requests may take. */
export interface TimeLimits {
  readonly timeoutInMs: number;
  readonly tryTimeoutInMs: number;
}

/** The default limit of one try, unless the call has less time. */
export const maxTryTimeoutInMs = 8_000;

/** Checks the limits and fills in defaults. A try gets a quarter of the time of the call: time for three tries, each with twice the time. */
export function checkTimeLimits(
  options: { readonly [name in keyof TimeLimits]?: number | undefined },
  defaultTimeoutInMs: number,
  minTimeoutInMs = 1,
): TimeLimits {
  const timeoutInMs = checkNumber("timeoutInMs", options.timeoutInMs ?? defaultTimeoutInMs, { min: minTimeoutInMs });
  const tryTimeoutInMs = options.tryTimeoutInMs ?? Math.max(1, Math.min(maxTryTimeoutInMs, timeoutInMs / 4));
  return { timeoutInMs, tryTimeoutInMs: checkNumber("tryTimeoutInMs", tryTimeoutInMs, { min: 1 }) };
}

/** How often, how long and with which delays an operation is retried. */
export interface RetryLimits extends TimeLimits {
  readonly maxAttempts: number;
  readonly retryDelayInMs: number;
  readonly maxRetryDelayInMs: number;
}

/** Checks the limits and fills in defaults. A delay above the default maximum also raises that maximum. */
export function checkRetryLimits(
  options: { readonly [name in keyof RetryLimits]?: number | undefined },
  defaults: Omit<RetryLimits, "tryTimeoutInMs">,
  shortest: { readonly timeoutInMs: number },
): RetryLimits {
  const retryDelayInMs = checkNumber("retryDelayInMs", options.retryDelayInMs ?? defaults.retryDelayInMs, { min: 0 });
  const maxRetryDelayInMs = options.maxRetryDelayInMs ?? Math.max(defaults.maxRetryDelayInMs, retryDelayInMs);
  return {
    maxAttempts: checkNumber("maxAttempts", options.maxAttempts ?? defaults.maxAttempts, { min: 1, integer: true }),
    ...checkTimeLimits(options, defaults.timeoutInMs, shortest.timeoutInMs),
    retryDelayInMs,
    maxRetryDelayInMs: checkNumber("maxRetryDelayInMs", maxRetryDelayInMs, { min: retryDelayInMs, max: 2 ** 31 - 1 }),
  };
}

/** Every read must return an ETag: without one, the write that follows would be unconditional. */
export function requireETag(etag: string | undefined, url: string): string {
  if (!etag) throw new TypeError(`The response for ${url} has no ETag, so a write could not be conditional.`);
  return etag;
}

/** Whether two ETags name the same version. Listings of blobs and files return them without the quotes that headers have, and the services accept both. */
export function isSameETag(a: string | undefined, b: string): boolean {
  return a === b || (a !== undefined && unquoted(a) === unquoted(b));
}

function unquoted(etag: string): string {
  return /^".*"$/s.test(etag) ? etag.slice(1, -1) : etag;
}

/** @throws `TypeError` if it is not a Standard Schema. A function can be one, too. */
export function checkStandardSchema(call: string, schema: unknown): void {
  const given = schema as { readonly "~standard"?: { readonly validate?: unknown } } | null;
  if (typeof given?.["~standard"]?.validate !== "function") throw new TypeError(`${call}: schema must be a Standard Schema (with ~standard.validate)`);
}

/** The names of all options of a call. The compiler checks that none is missing, and that there is no other. */
export type OptionNames<O> = { readonly [name in keyof Required<O>]: 1 };

/** Rejects options that are not an object, and names that no option has: a misspelt option would be ignored in silence. */
export function checkOptions<O extends object>(call: string, options: O | undefined, names: OptionNames<O>): void {
  if (options === undefined) return;
  // A caller without TypeScript may pass anything.
  if (typeof options !== "object" || (options as O | null) === null) throw new TypeError(`${call}: options must be an object.`);
  for (const name in options) {
    if (Object.hasOwn(names, name) || options[name] === undefined) continue;
    throw new TypeError(`${call}: unknown option ${quotedText(name)}. Known options: ${Object.keys(names).join(", ")}.`);
  }
  const { abortSignal } = options as { readonly abortSignal?: { readonly addEventListener?: unknown } };
  if (abortSignal && typeof abortSignal.addEventListener !== "function") throw new TypeError(`${call}: abortSignal is not a signal. Pass the signal of an AbortController.`);
}

/** The options of a call on top of defaults. An explicit `undefined` does not remove a default. What is not an object stays: the call rejects it. */
export function mergeDefined<O extends object>(defaults: Partial<O> | undefined, options: O | undefined): O {
  if (options !== undefined && (typeof options !== "object" || (options as O | null) === null)) return options;
  const merged = { ...defaults } as O;
  for (const name in options) if (options[name] !== undefined) merged[name] = options[name];
  return merged;
}

/** The options without some of them, for a call that does not have them. */
export function omitOptions<O extends object, N extends keyof O>(options: O, ...names: readonly N[]): Omit<O, N> {
  const rest = Object.entries(options).filter(([name]) => !names.includes(name as N));
  return Object.fromEntries(rest) as Omit<O, N>;
}

/**
 * Whether a URL names a snapshot of a blob or share, or a version of a blob: it can be read, but not changed. The service ignores the
 * name of the snapshot in some write requests, which then change the blob itself.
 */
export function isSnapshotUrl(url: unknown): boolean {
  return typeof url === "string" && /[?&](snapshot|sharesnapshot|versionid)=/i.test(url);
}

/**
 * The object with other members: what `{ ...object, ...members }` is. For what runs with each call. In Node 20, a literal that begins with a
 * spread gives each of its objects a hidden class of its own, which takes 1 µs and 300 bytes of old space, and makes every later access slow.
 * A literal whose first member is written out does not.
 */
export function withMembers<A extends object, B extends object>(object: A, members: B): Omit<A, keyof B> & B {
  return Object.assign({}, object, members);
}
