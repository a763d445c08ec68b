import { describe, expect, it } from "vitest";

import { lockedRowsOf, tableLockName } from "../../src/lock/table-lock-name.js";

describe("the name of a table lock", () => {
  it.each([
    [{ table: "orders" }, '["table","orders"]'],
    [{ table: "orders", partitionKey: "" }, '["table","orders",""]'],
    [{ table: "orders", partitionKey: 'e"u', rowKey: "7" }, '["table","orders","e\\"u","7"]'],
  ])("tells what it locks: %j", async (rows, name) => {
    expect(await tableLockName(rows)).toBe(name);
    expect(lockedRowsOf(name)).toEqual(rows);
  });

  it("is a hash of keys that are too long, which tells nothing", async () => {
    const name = await tableLockName({ table: "orders", partitionKey: "x".repeat(1_000) });
    expect(name).toMatch(/^table-sha256-/);
    expect(name).not.toBe(await tableLockName({ table: "orders", partitionKey: "y".repeat(1_000) }));
    expect(lockedRowsOf(name)).toBeUndefined();
  });

  it.each(["nightly", '["table",', '["table"]', '["table",1]', '["table","a","b","c","d"]', '["tables","a"]', '["table","a",null]'])("is not that of a table: %s", (name) => {
    expect(lockedRowsOf(name)).toBeUndefined();
  });
});
