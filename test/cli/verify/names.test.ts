import { describe, expect, it } from "vitest";

import { RunNames, startOf } from "../../../src/cli/verify/names.js";

describe("the names of a run of verify", () => {
  const start = Date.UTC(2026, 0, 2, 3, 4, 5);

  it("are valid for containers, tables, queues and shares, and differ", () => {
    const names = new RunNames(start);
    const all = Array.from({ length: 2_000 }, () => names.next());
    expect(new Set(all).size).toBe(2_000);
    for (const name of all) expect(name).toMatch(/^[a-z][a-z0-9]{2,62}$/);
  });

  it("say when the run began, and whose they are", () => {
    const [own, other] = [new RunNames(start), new RunNames(start)];
    const name = own.next();
    expect(startOf(name)).toEqual(new Date(start));
    expect([own.isOwn(name), other.isOwn(name)]).toEqual([true, false]);
  });

  it.each(["ascverify", "ascverify-of-another-program", "ascverify1", "orders", "xascverify0mjwzk3j4aabbccdd0", "ascverify0mjwzk3j4AABBCCDD0"])("do not include %s", (name) => {
    expect(startOf(name)).toBeUndefined();
  });
});
