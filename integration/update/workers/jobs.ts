/** What a test asks of the processes that update one blob or entity, and what they report. */
export interface UpdateJob {
  /** Leads through the fault proxy. */
  readonly connectionString: string;
  readonly place: Place;
  /** `"library"`, or a loop as it is commonly written by hand, for contrast. */
  readonly by: "library" | "hand-written loop";
  readonly change: Change;
  /** One update for each. */
  readonly ids: readonly string[];
  /** How many of them at the same time. */
  readonly updaters: number;
  readonly coalesce?: boolean;
  /**
   * What to do about a `CommitUnknownError`. `"look"`: what its message says, read and decide; possible because what is
   * stored names all operations. `"report"`: nothing.
   */
  readonly onUnknown?: "look" | "report";
}

export type Place =
  | { readonly kind: "blob"; readonly container: string; readonly blob: string }
  | { readonly kind: "entity"; readonly table: string; readonly partitionKey: string; readonly rowKey: string };

/**
 * `"add"`: adds one to `n`, and the id to the list of those that were applied, so that twice and never are both
 * visible; of an entity that is a Merge. `"add and remove"`: also replaces one property by another, which takes a Replace.
 */
export type Change = "add" | "add and remove";

export interface UpdateReport {
  /** Ids by what the call came to. */
  readonly resolved: string[];
  readonly unknown: string[];
  /** How many of those that resolved had to be looked for. */
  readonly looked: number;
  readonly failed: { readonly id: string; readonly message: string }[];
  /** How often the mutators ran. */
  readonly attempts: number;
}

/** The document, and the properties of the entity. The list is one string, as tables have no arrays. */
export interface Subject {
  n: number;
  applied: string;
  [other: `by_${string}`]: true;
}

export const emptySubject: Readonly<Subject> = { n: 0, applied: "", by_nobody: true };

/** The ids of the operations that are part of the subject. */
export function appliedIds(subject: Pick<Subject, "applied">): string[] {
  return subject.applied.split(",").filter((id) => id !== "");
}
