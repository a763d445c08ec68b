import { isThenable, observed } from "../core/pending-call.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { Entity } from "../target/table-entity.js";
import type { TransactionQuery } from "./transaction.js";

const queryNames: OptionNames<TransactionQuery> = { from: 1, to: 1, filter: 1, where: 1 };

/** Throws for a query with an unknown or wrong member: `{ form: "a" }` would read the whole partition, and conflict with all of its writers. */
export function checkQuery<T extends object>(query: TransactionQuery<T>): TransactionQuery<T> {
  checkOptions("tx.query", query, queryNames);
  for (const name of ["from", "to", "filter"] as const) {
    const given: unknown = query[name];
    if (given !== undefined && typeof given !== "string") throw new TypeError(`tx.query: ${name} must be a string, not ${typeof given}.`);
  }
  if (query.where !== undefined && typeof (query.where as unknown) !== "function") throw new TypeError("tx.query: where must be a function.");
  return query;
}

/** Whether an entity matches. A promise would count as true, so that every entity would match. */
export function matches<T extends object>({ where }: TransactionQuery<T>, entity: Entity<T>): boolean {
  if (where === undefined) return true;
  const result: unknown = observed(where(entity));
  if (isThenable(result)) throw new TypeError("tx.query: where must return a boolean, not a promise.");
  return Boolean(result);
}
