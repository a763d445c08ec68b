import { expect, it } from "vitest";
import { Recent } from "../../src/core/recent.js";

it("keeps what was used most recently, and creates the others anew", () => {
  const recent = new Recent<object>(2);
  const created: string[] = [];
  const get = (key: string): object => recent.get(key, () => (created.push(key), {}));
  const [a, b] = [get("a"), get("b")];
  expect(get("a")).toBe(a);
  get("c");
  expect(get("a")).toBe(a);
  expect(get("b")).not.toBe(b);
  expect(created).toEqual(["a", "b", "c", "b"]);
  expect(["a", "b", "c"].map((key) => recent.has(key))).toEqual([true, true, false]);
});
