/** Rules for the sources that neither the compiler nor the lint rules check. Exceptions are listed with their reason. */
import ts from "typescript";
import { describe, expect, it } from "vitest";

import { importsOf, nodesIn, readSources, type Sources } from "./source.js";

/** Without the servers for the tests of applications: they are the service. */
const sources: Sources = new Map([...readSources()].filter(([path]) => !path.startsWith("testing")));

/** The files with a node that matches, other than those under `home`. */
function filesOutside(home: string, matches: (node: ts.Node) => boolean): readonly string[] {
  return [...sources].filter(([path, text]) => !path.startsWith(home) && nodesIn(path, text, matches).length > 0).map(([path]) => path);
}

const isNamed = (name: string) => (node: ts.Node): boolean => ts.isIdentifier(node) && node.text === name;

describe("retries and waits", () => {
  it("p-retry is imported by core/retry.ts alone: its traps are dealt with there", () => {
    const importers = [...importsOf(sources)].filter(([, names]) => names.includes("p-retry"));
    expect(importers.map(([path]) => path)).toEqual(["core/retry.ts"]);
  });

  it("a retry of a single caller is retry() of core/retry.ts: only these other files wait between attempts", () => {
    const reasons: Readonly<Record<string, string>> = {
      "balancer/balancer-run.ts": "the time between two rebalances of a worker is its purpose, and goes on until it is stopped",
      "cli/verify/workspace.ts": "waits for the clock of the service, which is what a check is about",
      "cli/watch.ts": "the time between two looks is its purpose, until the user ends the command",
      "lease/waiter-queue.ts": "polls a lease for all its waiters in the process; each has its own deadline",
      "lock/leader-election.ts": "an election goes on until it is stopped",
      "lock/lock-turns.ts": "waits for the turn of a process in the order of tickets; the waiter queue ends the wait",
      "lock/observe-lock.ts": "the time between two polls of an observer is its purpose, not a backoff",
      "lock/reader-group.ts": "polls the gate for all readers of the process; each has its own deadline",
      "lock/slot-queue.ts": "polls for a slot as the waiter queue does; a release in the process ends the wait",
      "once/claim-key.ts": "waits for the outcome of another call, and polls for it",
      "outbox/relay-loop.ts": "the relay goes on until it is stopped",
      "queue/dispatcher.ts": "a message waits until its group may be free, as the waiter queue of leases does",
      "queue/polling-loop.ts": "the poll loop of a consumer goes on until it is stopped; notify() ends a wait",
      "schedule/schedule-loop.ts": "waits for the next due time until it is stopped; a trigger ends a wait",
    };
    expect(filesOutside("core/", isNamed("delay"))).toEqual(Object.keys(reasons).sort());
  });

  it("timers are started in core/, which takes times above 2^31 and leaves none behind; only these other files start one", () => {
    const reasons: Readonly<Record<string, string>> = {
      "cli/dashboard/page/live.ts": "runs in a page, and not with the library: asks the server again, and shows how long something lasts",
      "queue/capacity.ts": "lingers 20 ms for more free capacity",
      "queue/inbox/write-batcher.ts": "lingers 5 ms for more writes",
    };
    expect(filesOutside("core/", (node) => isNamed("setTimeout")(node) || isNamed("setInterval")(node))).toEqual(Object.keys(reasons).sort());
  });
});

describe("rows of tables", () => {
  it("are read where properties with the names of keys, ETag and time are told from these: a purge would delete what a row names", () => {
    const calls = (node: ts.Node): boolean => ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression) && /^(getEntity|listEntities)$/.test(node.expression.name.text);
    const readers = ["target/own-rows.ts", "target/table-entity.ts", "transaction/row.ts"];
    expect(filesOutside("cli/verify/", calls)).toEqual(readers);
    for (const path of readers) expect(sources.get(path)).toContain("separateCollisions(");
  });
});

describe("status and error codes of the services", () => {
  const home = "core/storage-errors.ts";
  const text = sources.get(home) ?? "";
  const isCode = (node: ts.Node): node is ts.StringLiteral => ts.isStringLiteral(node) && /^([A-Z][a-z]+){2}/.test(node.text);
  const codes = new Set(nodesIn(home, text, isCode).map((node) => (node as ts.StringLiteral).text));
  const comparisons = /^(===?|!==?|[<>]=?)$/;

  /** `statusOf(error) === 404`, `codeOf(error) === "..."`, `error.statusCode >= 500`. */
  function isComparison(node: ts.Node): boolean {
    if (!ts.isBinaryExpression(node) || !comparisons.test(node.operatorToken.getText())) return false;
    const sides = [node.left, node.right];
    const ofError = sides.some((side) => /^(?!typeof ).*\b(statusOf|codeOf|statusCode)\b/.test(side.getText()));
    return ofError && sides.some((side) => ts.isStringLiteral(side) || ts.isNumericLiteral(side));
  }

  it("are named in core/storage-errors.ts alone", () => {
    expect(codes.size).toBeGreaterThan(20);
    expect(filesOutside(home, (node) => ts.isStringLiteral(node) && codes.has(node.text))).toEqual([]);
  });

  it("are compared in core/storage-errors.ts alone", () => {
    expect(nodesIn(home, text, isComparison).length).toBeGreaterThan(5);
    expect(filesOutside(home, isComparison)).toEqual([]);
  });
});
