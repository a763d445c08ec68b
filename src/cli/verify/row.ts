/** The conditional headers of HTTP, in the order of the documentation. */
export const conditionNames = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"] as const;
export type ConditionName = (typeof conditionNames)[number];

/** Conditions as the blob SDK takes them. */
export interface Conditions {
  ifMatch?: string;
  ifNoneMatch?: string;
  ifModifiedSince?: Date;
  ifUnmodifiedSince?: Date;
}

/**
 * How what a row says of Azure is known. `documented`: by Microsoft. `recorded`: in public recordings of traffic with the service. `measured on
 * Azurite`: Azure is taken to do the same. `believed`: neither of them.
 */
export const sources = ["documented", "recorded", "measured on Azurite", "believed"] as const;
export type Source = (typeof sources)[number];
/** Parts of a row may have another source than the rest: `documented; believed: the code`. */
export type SourceText = Source | `${Source}; ${Source}: ${string}`;

/** What each list says of an operation, and the page shows. */
export interface Row {
  /** As Microsoft's documentation calls it. */
  readonly operation: string;
  /** What of this library covers it. */
  readonly helper?: string;
  /** What is worth knowing of the operation on Azure. */
  readonly note?: string;
  /** @defaultValue that of the table: most rows of one come from the same pages */
  readonly source?: SourceText;
  /** What Azurite does otherwise. The tests check that; everything else in the row holds for both. */
  readonly azurite?: string;
}

/** How an SDK treats a condition that the operation does not take: it leaves it out without a word, or throws. */
export type Unsupported = "dropped" | "throws";

export interface ConditionRow extends Row {
  readonly returnsETag: boolean;
  /** Whether the ETag is another one afterwards; nothing if there is none left. */
  readonly changesETag?: boolean;
  readonly accepts: readonly ConditionName[];
  /** @defaultValue "dropped", for each condition that is not accepted */
  readonly unsupported?: Partial<Record<ConditionName, Unsupported>>;
  /** Reads are rejected with 304 if nothing has changed; everything else is 412. */
  readonly reads?: boolean;
  /** How the service responds to a condition that does not hold. @defaultValue 412 ConditionNotMet, for reads also 304 */
  readonly rejections?: Partial<Record<ConditionName, string>>;
  /** The same for Azurite, where it differs. */
  readonly azuriteRejections?: Partial<Record<ConditionName, string>>;
  /** What the names of the conditions have in front of them in the headers. */
  readonly headerPrefix?: string;
  /** The response if nothing is wrong, where that is not a success. */
  readonly passes?: string;
}

export const allConditions: readonly ConditionName[] = conditionNames;
export const none: readonly ConditionName[] = [];

/** How the service responds to a condition that does not hold. */
export function rejection({ reads, rejections }: ConditionRow, condition: ConditionName): string {
  const given = rejections?.[condition];
  if (given !== undefined) return given;
  const changed = condition === "If-Match" || condition === "If-Unmodified-Since";
  return reads === true && !changed ? "304 ConditionNotMet" : "412 ConditionNotMet";
}

export interface Version {
  readonly etag: string;
  readonly lastModified: Date;
}

/** For operations whose types know of no conditions: what JavaScript, or a variable of another type, would give them. */
export function untyped(conditions: Conditions): object {
  return { conditions };
}

const hour = 3_600_000;

/** A value of the condition that holds, or does not hold, for what has this version. */
export function condition(name: ConditionName, { etag, lastModified }: Version, holds: boolean): Conditions {
  const other = '"0x8D0000000000000"';
  const before = new Date(lastModified.getTime() - hour);
  switch (name) {
    case "If-Match":
      return { ifMatch: holds ? etag : other };
    case "If-None-Match":
      return { ifNoneMatch: holds ? other : etag };
    case "If-Modified-Since":
      return { ifModifiedSince: holds ? before : lastModified };
    case "If-Unmodified-Since":
      return { ifUnmodifiedSince: holds ? lastModified : before };
  }
}
