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

/** What each list says of an operation, and the page shows. */
export interface Row {
  /** As Microsoft's documentation calls it. */
  readonly operation: string;
  /** What of this library covers it. */
  readonly helper?: string;
  /** What is worth knowing of the operation on Azure. */
  readonly note?: string;
  /** What Azurite does otherwise. The tests pin that; everything else in the row holds for both. */
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
  /** Reads are refused with 304 if nothing has changed; everything else is 412. */
  readonly reads?: boolean;
  /** What Azurite answers to a condition that does not hold, where it differs. */
  readonly azuriteRefusals?: Partial<Record<ConditionName, string>>;
  /** What the names of the conditions have in front of them in the headers. */
  readonly headerPrefix?: string;
  /** Where the operation cannot succeed on Azurite: what it answers if nothing is wrong. */
  readonly azuritePasses?: string;
}

export const allConditions: readonly ConditionName[] = conditionNames;
export const none: readonly ConditionName[] = [];

/** Rows in which every cell is wrong: one takes the other conditions, one has other answers. */
export function liesAbout<R extends ConditionRow>(row: R): R[] {
  const { operation, accepts } = row;
  const thrown = conditionNames.filter((name) => row.unsupported?.[name] === "throws");
  const etags = { returnsETag: !row.returnsETag, ...(row.changesETag !== undefined && { changesETag: !row.changesETag }) };
  const others = conditionNames.filter((name) => !accepts.includes(name) && !thrown.includes(name));
  const azuriteRefusals = Object.fromEntries(accepts.map((name) => [name, "499 Nonsense"]));
  const unsupported = Object.fromEntries(others.map((name) => [name, "throws" as const]));
  return [
    { ...row, ...etags, operation: `${operation}, with the other conditions`, accepts: others, unsupported: {} },
    { ...row, ...etags, operation: `${operation}, with other answers`, unsupported, azuritePasses: "299", azuriteRefusals },
  ];
}

/** What the service answers to a condition that does not hold. */
export function refusal({ reads }: ConditionRow, condition: ConditionName): string {
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
