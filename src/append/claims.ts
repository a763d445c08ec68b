import { claimsName, joinClaims, splitClaims } from "../target/append-claims.js";
import { roomIn } from "../target/blob-requests.js";

/**
 * Records which appender appends at which position. Stored in the metadata of the blob, and written before the append itself.
 *
 * An append carries nothing but the bytes, and two appenders may append the same bytes: what is stored at a position does not
 * tell which appender wrote it. So an appender first claims the position, and then appends on the condition that the blob has
 * not changed since. Another appender has to claim the same position first, and that invalidates the earlier appender's
 * append. Of the claims to one position, the last one identifies the appender.
 */
export interface Claim {
  readonly position: number;
  readonly id: string;
  /** The records of the block whose callers gave them an id. */
  readonly operations: readonly ClaimedOperation[];
}

/** A record with an `operationId`, and where it begins in its block. */
export interface ClaimedOperation {
  readonly id: string;
  readonly offset: number;
}

/**
 * The number of claims that are kept: an appender recognises its block under up to 63 later ones. They take about 1.5 of the
 * 8 KiB that metadata may have.
 */
const claimsKept = 64;

/**
 * The maximum size of the operations of one block: with ids of 36 characters, 50 records. At least two blocks with operations before
 * it stay recognisable.
 */
export const maxOperationsInBytes: number = 2 * 1024;

/** Newest first. Claims to this position or a later one were not used: the blob ends at the position of the new claim. */
export function withClaim(claims: readonly Claim[], claim: Claim): readonly Claim[] {
  return [claim, ...claims.filter(({ position }) => position < claim.position)].slice(0, claimsKept);
}

/** The id of the claim that was last made to this position; undefined: too long ago, or appended without a claim. */
export function claimantOf(claims: readonly Claim[], position: number): string | undefined {
  return claims.find((claim) => claim.position === position)?.id;
}

/** What the claims say about an operation. `"claimed"`: its block was not appended, but a request may still be in flight. */
export type FoundOperation = { readonly kind: "appended"; readonly offset: number } | { readonly kind: "claimed" };

/**
 * Finds the record of an operation by its id: one that a caller gave, or a {@link tokenOf} of the library. Undefined: it was not
 * appended, or too long ago. A client that appends without claims may have stored other bytes at the offset: compare them.
 */
export function findOperation(state: { readonly length: number; readonly claims: readonly Claim[] }, operationId: string): FoundOperation | undefined {
  const token = parseToken(operationId);
  for (const { position, id, operations } of state.claims) {
    const inBlock = operations.find((operation) => operation.id === operationId)?.offset ?? (token?.claimId === id ? token.offset : undefined);
    if (inBlock === undefined) continue;
    return position < state.length ? { kind: "appended", offset: position + inBlock } : { kind: "claimed" };
  }
  return undefined;
}

/** The id of an operation whose caller gave none: the claim of its block, and where the record begins in the block. */
export function tokenOf(claimId: string, offsetInBlock: number): string {
  return `${claimId}-${offsetInBlock.toString(36)}`;
}

function parseToken(operationId: string): { readonly claimId: string; readonly offset: number } | undefined {
  const [, claimId, offset] = /^(.+)-([0-9a-z]+)$/.exec(operationId) ?? [];
  return claimId === undefined || offset === undefined ? undefined : { claimId, offset: Number.parseInt(offset, 36) };
}

/** The size that an operation adds to its claim. */
export function sizeOfOperation(operation: ClaimedOperation): number {
  return formatOperation(operation).length;
}

/** The metadata with the claims, as far as they fit. */
export function metadataWithClaims(metadata: Readonly<Record<string, string>>, claims: readonly Claim[]): Record<string, string> {
  return { ...metadata, [claimsName]: joinClaims(claims.map(formatClaim), roomIn(metadata, claimsName)) };
}

/** `position.id`, then each operation. A version of the library that does not know operations takes them for a part of the id. */
function formatClaim({ position, id, operations }: Claim): string {
  return `${position.toString(36)}.${id}${operations.map(formatOperation).join("")}`;
}

function formatOperation({ id, offset }: ClaimedOperation): string {
  return `+${id}${offset === 0 ? "" : `:${offset.toString(36)}`}`;
}

/** Any text that is not a list of claims counts as no claims: nothing can be concluded from it. */
export function parseClaims(text: string | undefined): readonly Claim[] {
  const claims = (splitClaims(text) ?? []).map(parseClaim);
  return claims.every(isValid) ? claims : [];
}

function parseClaim(entry: string): Claim {
  const dot = entry.indexOf(".");
  const [id = "", ...operations] = entry.slice(dot + 1).split("+");
  return { position: Number.parseInt(entry.slice(0, dot), 36), id, operations: operations.map(parseOperation) };
}

function parseOperation(text: string): ClaimedOperation {
  const [id = "", offset = "0"] = text.split(":");
  return { id, offset: Number.parseInt(offset, 36) };
}

function isValid({ position, id, operations }: Claim): boolean {
  return isOffset(position) && id !== "" && operations.every((operation) => operation.id !== "" && isOffset(operation.offset));
}

function isOffset(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
