import { describe, expect, it } from "vitest";

import { type Answered, type Exchange, exchange } from "./exchange.js";
import { type ConditionName, conditionNames, type Conditions, condition, type ConditionRow, refusal, type Version } from "./row.js";

/** Something fresh to try an operation on. */
export interface Trial {
  /** Its version before the call: what the conditions are about. */
  readonly version: Version;
  call(conditions: Conditions): Promise<Answered>;
  /** Its ETag now. */
  etag(): Promise<string | undefined>;
}

/** `it`, or `it.fails` for rows that say the opposite of what is true: a check that lets them through checks nothing. */
export type Test = (name: string, run: () => Promise<void>) => void;

/** Each cell of a row as a test: the ETag, and each condition, whether the operation takes it or not. */
export function testConditions<R extends ConditionRow>(rows: readonly R[], prepare: (row: R) => Promise<Trial>, test: Test = it): void {
  describe.each(rows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
    const passes = row.azuritePasses ?? /^2\d\d$/;

    test(row.returnsETag ? "returns an ETag" : "returns no ETag", async () => {
      const trial = await prepare(row);
      const { answer, etag } = await exchange(() => trial.call({}));
      expect(answer).toMatch(passes);
      if (row.returnsETag) expect(etag).toMatch(/^(W\/)?".+"$/);
      else expect(etag).toBeUndefined();
    });

    if (row.changesETag !== undefined) {
      test(row.changesETag ? "changes the ETag" : "leaves the ETag as it is", async () => {
        const trial = await prepare(row);
        expect((await exchange(() => trial.call({}))).answer).toMatch(passes);
        expect((await trial.etag()) !== trial.version.etag).toBe(row.changesETag);
      });
    }

    for (const name of conditionNames) {
      const attempt = async (holds: boolean): Promise<Exchange> => {
        const trial = await prepare(row);
        const result = await exchange(() => trial.call(condition(name, trial.version, holds)));
        if (result.answer.startsWith("412") || result.answer.startsWith("304")) expect(await trial.etag()).toBe(trial.version.etag);
        return result;
      };
      testCell(test, row, name, attempt, passes, `${row.headerPrefix ?? ""}${name.toLowerCase()}`);
    }
  });
}

function testCell(
  test: Test,
  row: ConditionRow,
  name: ConditionName,
  attempt: (holds: boolean) => Promise<Exchange>,
  passes: string | RegExp,
  header: string,
): void {
  if (row.accepts.includes(name)) {
    test(`goes through if ${name} holds`, async () => {
      const { answer, sent } = await attempt(true);
      expect(answer).toMatch(passes);
      expect(sent(header)).toBeDefined();
    });
    const expected = row.azuriteRefusals?.[name] ?? refusal(row, name);
    test(`is answered ${expected} if ${name} does not hold`, async () => {
      const { answer, sent } = await attempt(false);
      expect(answer).toBe(expected);
      expect(sent(header)).toBeDefined();
    });
  } else if (row.unsupported?.[name] === "throws") {
    test(`does not take ${name}: the SDK throws`, async () => {
      expect((await attempt(true)).answer).toBe("RangeError");
      expect((await attempt(false)).answer).toBe("RangeError");
    });
  } else {
    test(`does not take ${name}: it is not sent, and goes through even if it does not hold`, async () => {
      const { answer, sent } = await attempt(false);
      expect(answer).toMatch(passes);
      expect(sent(header)).toBeUndefined();
    });
  }
}
