import { describe, expect, it } from "vitest";

import { overlapsOf } from "../../integration/chaos/claims.js";
import type { Claim } from "../../integration/chaos/claims.js";
import { checkDeliveries } from "../../integration/chaos/histories/deliveries.js";
import type { DeliveryEvent } from "../../integration/chaos/histories/deliveries.js";
import { checkDueTimes } from "../../integration/chaos/histories/due-times.js";
import type { JobHistory } from "../../integration/chaos/histories/due-times.js";
import { checkPages } from "../../integration/chaos/histories/pages.js";
import type { PageEvent } from "../../integration/chaos/histories/pages.js";
import { damageOf } from "../../integration/chaos/scenarios/reads.js";

/** A history, and what is found wrong with it. */
type Cases<T> = readonly (readonly [name: string, history: T, problems: readonly RegExp[]])[];

function expectProblems(found: readonly string[], expected: readonly RegExp[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [i, problem] of expected.entries()) expect(found[i]).toMatch(problem);
}

describe("the intervals in which a lock was certainly held", () => {
  const held = (epoch: number, first: number, last: number, resource = "a"): Claim => ({ resource, epoch, first, last });
  const cases: Cases<readonly Claim[]> = [
    ["one after the other", [held(1, 0, 10), held(2, 11, 20), held(5, 30, 31)], []],
    ["the reports of one holder", [held(1, 0, 1), held(1, 0, 5), held(1, 0, 10)], []],
    ["two locks", [held(1, 0, 10), held(1, 5, 20, "b")], []],
    ["two at once", [held(1, 0, 10), held(2, 9, 20)], [/held by epoch 2, and by epoch 1 still 1\.0 ms later/]],
    ["one within another", [held(1, 0, 100), held(2, 40, 50)], [/epoch 2.*epoch 1/]],
    ["an epoch that falls", [held(3, 0, 10), held(2, 11, 20)], [/epoch 2 came after 3/]],
    ["an epoch that is used twice", [held(3, 0, 10), held(3, 11, 20)], [/epoch 3 came after 3/]],
  ];
  it.each(cases)("%s", (_, claims, problems) => expectProblems(overlapsOf(claims, 1), problems));

  it("a holder of a slot that another one has, although there are slots enough", () => {
    const claims = [held(1, 0, 10, "slots/0"), held(2, 5, 15, "slots/0")];
    expectProblems(overlapsOf(claims, 1), [/slots\/0: held by epoch 2/]);
  });

  it("more holders than a limit", () => {
    expect(overlapsOf([held(1, 0, 10), held(2, 5, 15)], 2)).toEqual([]);
    expectProblems(overlapsOf([held(1, 0, 10), held(2, 5, 15), held(3, 6, 7)], 2), [/held by epoch 3/]);
  });
});

describe("the history of a queue", () => {
  const handled = (key: string, from: number, to: number): DeliveryEvent => ({ kind: "handled", key, from, to });
  const step = (sequence: number, from: number, to: number, group = "g"): DeliveryEvent => ({ kind: "handled", key: `${group}#${sequence}`, group, sequence, from, to });
  const completed = (key: string, at: number): DeliveryEvent => ({ kind: "completed", key, at });
  const cases: Cases<readonly DeliveryEvent[]> = [
    ["each once", [handled("a", 0, 5), completed("a", 6), handled("b", 2, 9), completed("b", 10)], []],
    ["again, as its consumer was killed", [handled("a", 0, 5), handled("a", 20, 25), completed("a", 26)], []],
    ["two handlers of a key at a time", [handled("a", 0, 5), handled("a", 4, 9)], [/a handler of a began 1\.0 ms before/]],
    ["behind a long one that is not the last", [handled("a", 0, 50), handled("a", 10, 12), handled("a", 20, 60)], [/before/, /before/]],
    ["completed twice", [handled("a", 0, 5), completed("a", 6), completed("a", 9)], [/a was completed twice/]],
    ["handled after it was completed", [handled("a", 0, 5), completed("a", 6), handled("a", 7, 9)], [/a was handled 1\.0 ms after/]],
    ["a group in order", [step(1, 0, 5), step(2, 6, 7), step(2, 20, 21), step(3, 22, 23), step(1, 0, 30, "h")], []],
    ["two handlers of a group at a time", [step(1, 0, 5), step(2, 4, 7)], [/g: a handler of g#2 began/]],
    ["a sequence that is left out", [step(1, 0, 5), step(3, 6, 7)], [/g: 3 was handled after 1/]],
    ["a sequence that goes back", [step(1, 0, 5), step(2, 6, 7), step(1, 8, 9)], [/g: 1 was handled after 2/]],
    ["a sequence that does not begin with the first", [step(2, 0, 5)], [/g: 2 was handled after 0/]],
  ];
  it.each(cases)("%s", (_, events, problems) => expectProblems(checkDeliveries(events), problems));
});

describe("the history of a job", () => {
  const history = (given: Partial<JobHistory>): JobHistory => ({ everyInMs: 1_000, earlyByInMs: 5, runs: [], ...given });
  const run = (due: number, from: number, to?: number): JobHistory["runs"][number] => ({ due, from, ...(to !== undefined && { to }) });
  const cases: Cases<JobHistory> = [
    ["each due time, late and on time", history({ effects: [3_000, 1_000, 2_000], runs: [run(1_000, 1_000, 1_500), run(2_000, 2_900, 2_990), run(3_000, 3_000, 3_100)] }), []],
    ["again, as its process was killed", history({ runs: [run(1_000, 1_001), run(1_000, 17_000, 17_001)] }), []],
    ["an effect twice", history({ effects: [1_000, 2_000, 2_000] }), [/2000 has two effects/]],
    ["a due time left out", history({ effects: [1_000, 3_000] }), [/3000 follows 1000/]],
    ["a run left out", history({ runs: [run(1_000, 1_001, 1_002), run(3_000, 3_001, 3_002)] }), [/3000 follows 1000/]],
    ["too early", history({ runs: [run(1_000, 900, 950)] }), [/1000 ran 100 ms too early/]],
    ["two runs at a time", history({ runs: [run(1_000, 1_000, 2_500), run(2_000, 2_000, 2_100)] }), [/2000 began 500\.0 ms before/]],
    ["back to an earlier one", history({ runs: [run(2_000, 2_001), run(1_000, 2_500)] }), [/1000 ran after 2000/]],
    ["started twice", history({ startsOnce: true, runs: [run(1_000, 1_001), run(1_000, 17_000)] }), [/1000 started twice/]],
  ];
  it.each(cases)("%s", (_, given, problems) => expectProblems(checkDueTimes("job", given), problems));
});

describe("the history of pages", () => {
  const claimed = (number: number, from: number, to: number): PageEvent => ({ kind: "claimed", number, from, to });
  const written = (number: number, write: number, from: number, to: number): PageEvent => ({ kind: "written", number, write, from, to });
  const read = (number: number, write: number, from: number, to: number): PageEvent => ({ kind: "read", number, write, from, to });
  const cases: Cases<readonly PageEvent[]> = [
    ["one writer after the other", [claimed(1, 0, 1), written(1, 1, 2, 3), read(1, 1, 4, 5), claimed(2, 6, 7), read(1, 1, 8, 9), written(2, 1, 10, 11), read(2, 1, 12, 13)], []],
    ["a write that was not confirmed is found", [claimed(1, 0, 1), written(1, 1, 2, 3), read(1, 2, 9, 10)], []],
    ["a write that was in flight when another writer claimed", [claimed(1, 0, 1), claimed(2, 5, 8), written(1, 1, 7, 9)], []],
    ["two writers with one number", [claimed(1, 0, 1), claimed(1, 2, 3)], [/two writers have the number 1/]],
    ["a write after another writer had claimed", [claimed(1, 0, 1), claimed(2, 2, 3), written(1, 1, 4, 5)], [/write 1 of 1 began 1\.0 ms after 2 had claimed/]],
    ["a late write of an earlier writer", [claimed(1, 0, 1), claimed(2, 2, 3), written(2, 1, 4, 5), read(1, 7, 6, 7)], [/found write 7 of 1 after write 1 of 2/]],
    ["a late write of the same writer", [claimed(1, 0, 1), written(1, 2, 4, 5), read(1, 1, 6, 7)], [/found write 1 of 1 after write 2 of 1/]],
  ];
  it.each(cases)("%s", (_, events, problems) => expectProblems(checkPages(events), problems));
});

describe("a download", () => {
  it("of one version is not damaged", () => {
    expect(damageOf(new Uint8Array(), 0)).toBeUndefined();
    expect(damageOf(new Uint8Array(1_000).fill(2 * 32 + 7), 1_000)).toBeUndefined();
  });
  it.each([
    ["cut off", new Uint8Array(999).fill(64), 1_000, /999 bytes long, its version has 1000/],
    ["part old, part new", new Uint8Array(1_000).fill(64).fill(65, 500), 1_000, /mixed/],
    ["of the length of another version", new Uint8Array(1).fill(64), 1, /the content is that of 1000 bytes/],
  ])("that is %s is damaged", (_, content, sizeInBytes, problem) => {
    expect(damageOf(content, sizeInBytes)).toMatch(problem);
  });
});
