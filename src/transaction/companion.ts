import type { AdapterRequest } from "../clients/call.js";
import type { EntityInput } from "../clients/table.js";

/** What is known of a commit. `"unknown"`: the request was sent, and may still be carried out. */
export type CompanionOutcome = "committed" | "not committed" | "unknown";

/**
 * A row of the library that one run of a function adds to its transaction, and what follows from the commit. It belongs to the run: if the
 * function runs again, it attaches another one, and this one is dropped with all that the run has written.
 */
export interface TransactionCompanion {
  /** Called once, when the function has returned. The row is part of the commit. If it rejects, the transaction fails: nothing was written. */
  readonly prepare: (request: AdapterRequest) => Promise<EntityInput>;
  /** A commit with the row is about to be sent. Must not throw. */
  readonly onSend: () => void;
  /** How that commit ended: once for each `onSend`. Must not throw. */
  readonly onOutcome: (outcome: CompanionOutcome) => void;
}

/** Tells the companions of a commit when it is sent, and how it ended, also if it throws. */
export async function accompany<R extends { readonly outcome: { readonly kind: string } }>(companions: readonly TransactionCompanion[], commit: () => Promise<R>): Promise<R> {
  for (const companion of companions) companion.onSend();
  let outcome: CompanionOutcome = "unknown";
  try {
    const result = await commit();
    const { kind } = result.outcome;
    if (kind !== "unknown") outcome = kind === "committed" ? "committed" : "not committed";
    return result;
  } finally {
    for (const companion of companions) companion.onOutcome(outcome);
  }
}
