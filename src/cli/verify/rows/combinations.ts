import { type ConditionName, conditionNames, type Row } from "../row.js";

export interface CombinationRow extends Row {
  /** Which conditions are given, and whether they hold. */
  readonly given: Partial<Record<ConditionName, boolean>>;
  /** Reads: If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since). */
  readonly reads: string;
  /** Writes: If-Match goes before If-Unmodified-Since, If-None-Match before If-Modified-Since; other pairs are rejected. */
  readonly writes: string;
}

const passes = "passes";
const rejected = "412 ConditionNotMet";
const unchanged = "304 ConditionNotMet";
const notSupported = "400 MultipleConditionHeadersNotSupported";

function row(given: Partial<Record<ConditionName, boolean>>, reads: string, writes: string): CombinationRow {
  const words = conditionNames.filter((name) => name in given).map((name) => `${name} ${given[name] === true ? "holds" : "does not"}`);
  return { operation: words.join(", "), given, reads, writes };
}

/** Several conditions in one request. */
export const combinationRows: readonly CombinationRow[] = [
  row({ "If-Match": true, "If-Unmodified-Since": true }, passes, passes),
  row({ "If-Match": true, "If-Unmodified-Since": false }, rejected, passes),
  row({ "If-Match": false, "If-Unmodified-Since": true }, rejected, rejected),
  row({ "If-None-Match": true, "If-Modified-Since": true }, passes, passes),
  row({ "If-None-Match": true, "If-Modified-Since": false }, passes, passes),
  row({ "If-None-Match": false, "If-Modified-Since": true }, passes, rejected),
  row({ "If-None-Match": false, "If-Modified-Since": false }, unchanged, rejected),
  row({ "If-Match": true, "If-None-Match": true }, passes, notSupported),
  row({ "If-Match": true, "If-None-Match": false }, unchanged, notSupported),
  row({ "If-Match": true, "If-Modified-Since": true }, passes, notSupported),
  row({ "If-None-Match": true, "If-Unmodified-Since": true }, passes, notSupported),
  row({ "If-Modified-Since": true, "If-Unmodified-Since": true }, passes, notSupported),
  row({ "If-Match": true, "If-None-Match": true, "If-Modified-Since": true, "If-Unmodified-Since": true }, passes, notSupported),
];
