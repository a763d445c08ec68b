import type { Check, CheckGroup } from "../check.js";
import { outcome } from "../check.js";
import type { Exchange, SdkResponse } from "../exchange.js";
import { exchange } from "../exchange.js";
import type { ConditionName, ConditionRow, Conditions, SourceText, Version } from "../row.js";
import { condition, conditionNames, rejection } from "../row.js";
import type { Workspace } from "../workspace.js";

/** Something new to try an operation on. */
export interface Trial {
  /** Its version before the call: what the conditions are about. */
  readonly version: Version;
  call(conditions: Conditions): Promise<SdkResponse>;
  /** Its ETag now. */
  etag(): Promise<string | undefined>;
}

/** How the operations of a table are tried. */
export interface Trials<R> extends CheckGroup {
  prepare(row: R, workspace: Workspace): Promise<Trial>;
  /** The requests of `prepare` and of the removal, of the call itself, and of `etag`. */
  cost(row: R): { readonly around: number; readonly call: number };
  /** Cells that a SAS cannot check. */
  needsKey?(row: R): boolean;
  /** How a row is known that does not say it. */
  readonly source: SourceText;
}

/** Each cell of a row as a check: the ETag, and each condition, whether the operation takes it or not. */
export function conditionChecks<R extends ConditionRow>(rows: readonly R[], trials: Trials<R>): Check[] {
  return rows.flatMap((row) => [...etagChecks(row, trials), ...conditionNames.map((name) => cellCheck(row, name, trials))]);
}

type Part = Pick<Check, "name" | "expected" | "requests" | "run"> & { readonly emulator?: string | undefined };

function checkOf<R extends ConditionRow>(row: R, trials: Trials<R>, part: Part): Check {
  const { service, group, source } = trials;
  return { service, group, source: row.source ?? source, helper: row.helper, needsKey: trials.needsKey?.(row), ...part, name: `${row.operation}: ${part.name}` };
}

function etagChecks<R extends ConditionRow>(row: R, trials: Trials<R>): Check[] {
  const { around, call } = trials.cost(row);
  const { passes, returnsETag, changesETag } = row;
  const returned: Part = {
    name: "the response",
    expected: returnsETag ? "passes, with an ETag" : "passes, without an ETag",
    requests: around + call,
    run: async (workspace) => {
      const trial = await trials.prepare(row, workspace);
      const { response, etag } = await exchange(() => trial.call({}));
      return `${outcome(response, passes)}, ${etag === undefined ? "without an ETag" : /^(W\/)?".+"$/.test(etag) ? "with an ETag" : `with the ETag ${etag}`}`;
    },
  };
  const changed: Part = {
    name: "the ETag afterwards",
    expected: changesETag ? "passes, another ETag" : "passes, the same ETag",
    requests: around + call + 1,
    run: async (workspace) => {
      const trial = await trials.prepare(row, workspace);
      const { response } = await exchange(() => trial.call({}));
      return `${outcome(response, passes)}, ${(await trial.etag()) === trial.version.etag ? "the same ETag" : "another ETag"}`;
    },
  };
  return (changesETag === undefined ? [returned] : [returned, changed]).map((part) => checkOf(row, trials, part));
}

function cellCheck<R extends ConditionRow>(row: R, name: ConditionName, trials: Trials<R>): Check {
  return checkOf(row, trials, row.accepts.includes(name) ? acceptedCell(row, name, trials) : unsupportedCell(row, name, trials));
}

function headerOf({ headerPrefix = "" }: ConditionRow, name: ConditionName): string {
  return `${headerPrefix}${name.toLowerCase()}`;
}

/** A condition that the operation accepts: one call for which it holds, and one for which it does not, which must change nothing. */
function acceptedCell<R extends ConditionRow>(row: R, name: ConditionName, trials: Trials<R>): Part {
  const { around, call } = trials.cost(row);
  const described = (rejectedWith: string): string => `holds: passes; does not hold: ${rejectedWith}`;
  const differing = row.azuriteRejections?.[name];
  const expected = described(rejection(row, name));
  return {
    name,
    expected,
    emulator: differing === undefined || described(differing) === expected ? undefined : described(differing),
    requests: 2 * (around + call) + 1,
    run: async (workspace) => {
      const sentOrNot = ({ sent }: Exchange): string => (sent(headerOf(row, name)) === undefined ? " (not sent)" : "");
      const first = await trials.prepare(row, workspace);
      const holds = await exchange(() => first.call(condition(name, first.version, true)));
      const second = await trials.prepare(row, workspace);
      const fails = await exchange(() => second.call(condition(name, second.version, false)));
      const etag = await second.etag().catch(() => "none");
      const unchanged = etag === second.version.etag ? "" : " (changed)";
      return `holds: ${outcome(holds.response, row.passes)}${sentOrNot(holds)}; does not hold: ${fails.response}${sentOrNot(fails)}${unchanged}`;
    },
  };
}

/** A condition that the operation does not take: the SDK leaves it out, or throws before it sends anything. */
function unsupportedCell<R extends ConditionRow>(row: R, name: ConditionName, trials: Trials<R>): Part {
  const { around, call } = trials.cost(row);
  const throws = row.unsupported?.[name] === "throws";
  return {
    name,
    expected: throws ? "the SDK throws a RangeError" : "not sent, passes",
    requests: throws ? around : around + call,
    run: async (workspace) => {
      const trial = await trials.prepare(row, workspace);
      const { response, sent } = await exchange(() => trial.call(condition(name, trial.version, false)));
      if (response === "RangeError") return "the SDK throws a RangeError";
      return `${sent(headerOf(row, name)) === undefined ? "not sent" : "sent"}, ${outcome(response, row.passes)}`;
    },
  };
}
