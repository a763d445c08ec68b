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

/** Each cell of a row as a test: the ETag, and each condition, whether the operation takes it or not. */
export function testConditions<R extends ConditionRow>(rows: readonly R[], prepare: (row: R) => Promise<Trial>): void {
  describe.each(rows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
    const passes = row.azuritePasses ?? /^2\d\d$/;

    it(row.returnsETag ? "returns an ETag" : "returns no ETag", async () => {
      const trial = await prepare(row);
      const { answer, etag } = await exchange(() => trial.call({}));
      expect(answer).toMatch(passes);
      if (row.returnsETag) expect(etag).toMatch(/^(W\/)?".+"$/);
      else expect(etag).toBeUndefined();
    });

    if (row.changesETag !== undefined) {
      it(row.changesETag ? "changes the ETag" : "leaves the ETag as it is", async () => {
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
      testCell(row, name, attempt, passes, `${row.headerPrefix ?? ""}${name.toLowerCase()}`);
    }
  });
}

function testCell(
  row: ConditionRow,
  name: ConditionName,
  attempt: (holds: boolean) => Promise<Exchange>,
  passes: string | RegExp,
  header: string,
): void {
  if (row.accepts.includes(name)) {
    it(`goes through if ${name} holds`, async () => {
      const { answer, sent } = await attempt(true);
      expect(answer).toMatch(passes);
      expect(sent(header)).toBeDefined();
    });
    it(`is refused if ${name} does not hold`, async () => {
      const { answer, sent } = await attempt(false);
      expect(answer).toBe(row.azuriteRefusals?.[name] ?? refusal(row, name));
      expect(sent(header)).toBeDefined();
    });
  } else if (row.unsupported?.[name] === "throws") {
    it(`does not take ${name}: the SDK throws`, async () => {
      expect((await attempt(true)).answer).toBe("RangeError");
      expect((await attempt(false)).answer).toBe("RangeError");
    });
  } else {
    it(`does not take ${name}: it is not sent, and goes through even if it does not hold`, async () => {
      const { answer, sent } = await attempt(false);
      expect(answer).toMatch(passes);
      expect(sent(header)).toBeUndefined();
    });
  }
}
