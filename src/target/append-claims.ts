/**
 * The claims of the appenders of an append blob, as they are stored: one metadata entry, `1~claim~claim...`, newest first. What a claim
 * says is known to `src/append/claims.ts`. Every writer of the metadata has to keep them: without its claim, a record that is repeated
 * with its `operationId` would be appended twice.
 */

/** The name of the metadata entry that contains the claims. */
export const claimsName = "asc_appends";

const version = "1";

/**
 * The text of claims that fits into this many bytes. The operations of the oldest claims are dropped first, then the oldest claims: lost
 * responses are recognised by claims alone. Nothing of the newest claim is dropped: it may be of an append that is in flight.
 */
export function joinClaims(claims: readonly string[], available: number): string {
  const entries = [...claims];
  let length = version.length + entries.reduce((sum, entry) => sum + 1 + entry.length, 0);
  for (let oldest = entries.length - 1; oldest > 0 && length > available; oldest--) {
    const entry = entries[oldest] ?? "";
    entries[oldest] = withoutOperations(entry);
    length -= entry.length - withoutOperations(entry).length;
  }
  while (length > available && entries.length > 1) length -= 1 + (entries.pop() ?? "").length;
  return [version, ...entries].join("~");
}

/** The texts of the claims. Undefined: the text is not a list of claims, and nothing can be concluded from it. */
export function splitClaims(text: string | undefined): readonly string[] | undefined {
  const [found, ...claims] = text?.split("~") ?? [];
  return found === version ? claims : undefined;
}

function withoutOperations(claim: string): string {
  const end = claim.indexOf("+");
  return end < 0 ? claim : claim.slice(0, end);
}

/** Metadata without the claims, and the claims. Metadata names are case-insensitive. */
export function separateClaims(metadata: Readonly<Record<string, string>>): { readonly own: Record<string, string>; readonly claimsText: string | undefined } {
  const entries = Object.entries(metadata);
  const isClaims = ([name]: readonly [string, string]): boolean => name.toLowerCase() === claimsName;
  return { own: Object.fromEntries(entries.filter((entry) => !isClaims(entry))), claimsText: entries.find(isClaims)?.[1] };
}

/** Throws for metadata of the caller that would take the place of the claims. */
export function requireNoClaims(metadata: Readonly<Record<string, string>>): void {
  if (!Object.keys(metadata).some((name) => name.toLowerCase() === claimsName)) return;
  throw new TypeError(`The metadata name ${JSON.stringify(claimsName)} is reserved for the library: choose another name.`);
}
