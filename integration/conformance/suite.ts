import { beforeAll, describe, expect, it } from "vitest";

import { Account } from "../../src/cli/connect.js";
import type { Check } from "../../src/cli/verify/check.js";
import { type CheckResult, runChecks } from "../../src/cli/verify/run-checks.js";
import { type Owned, Workspace } from "../../src/cli/verify/workspace.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";
import { isEmulator, withFiles } from "../support/clients.js";

/** A workspace in the storage of this run. */
export function workspaceHere(connectionString: string = withFiles(), signal: AbortSignal = new AbortController().signal): Workspace {
  return new Workspace(new Account({ connectionString }, new FakeTerminal(), { tries: 1 }), signal);
}

/**
 * Each check as a test. They run together, so that the shortest lease there is, of 15 seconds, is waited for once. An emulator has to
 * differ as it is known to: a difference that is gone has to leave the table.
 */
export function testChecks(checks: readonly Check[]): void {
  const results = new Map<Check, CheckResult>();
  let left: readonly Owned[];

  beforeAll(async () => {
    const workspace = workspaceHere();
    await workspace.open([...new Set(checks.map(({ service }) => service))]);
    try {
      for (const result of await runChecks(checks, workspace, { emulator: isEmulator() })) results.set(result.check, result);
    } finally {
      left = await workspace.removeAll();
    }
  }, 180_000);

  describe.each([...new Set(checks.map(({ group }) => group))])("%s", (group) => {
    it.each(checks.filter((check) => check.group === group).map((check) => [check.name, check] as const))("%s", (_name, check) => {
      const expected = isEmulator() ? (check.emulator ?? check.expected) : check.expected;
      expect(results.get(check)?.found).toBe(expected);
    });
  });

  it("leaves nothing behind", () => {
    expect(left).toEqual([]);
  });
}
