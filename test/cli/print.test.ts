import { describe, expect, it } from "vitest";

import { ago, counted, oneLine, printProperties, printRows } from "../../src/cli/print.js";
import { FakeTerminal } from "./fake-terminal.js";

const columns = { name: (item: Item) => item.name, size: (item: Item) => item.size };
interface Item {
  name: string;
  size?: number;
}

describe("printing", () => {
  it("lines columns up by what is seen, not by code units", () => {
    const terminal = new FakeTerminal();
    printRows({ terminal, json: false }, [{ name: "cafe\u0301", size: 1 }, { name: "plain" }], columns, "none");
    expect(terminal.stdout).toBe("NAME   SIZE\ncafe\u0301   1\nplain  -\n");
  });

  it("prints 150,000 rows, as a table and as JSON, within seconds", () => {
    const rows = Array.from({ length: 150_000 }, (_, i) => ({ name: `lock-${i}`, size: i }));
    for (const json of [false, true]) {
      const terminal = new FakeTerminal();
      printRows({ terminal, json }, rows, columns, "none");
      expect(terminal.stdout).toContain("lock-149999");
    }
  });

  it("says so if there is nothing", () => {
    const terminal = new FakeTerminal();
    printRows({ terminal, json: false }, [], columns, "There are none.");
    expect(terminal.stdout).toBe("There are none.\n");
  });

  it("prints an empty array as JSON", () => {
    const terminal = new FakeTerminal();
    printRows({ terminal, json: true }, [], columns, "There are none.");
    expect(JSON.parse(terminal.stdout)).toEqual([]);
  });

  it("lets nobody's data move the cursor", () => {
    const terminal = new FakeTerminal();
    printProperties({ terminal, json: false }, { holder: "a\u001b[2Jb\r\nc" });
    expect(terminal.stdout).toBe("holder  a [2Jb c\n");
  });

  it("cuts long texts and keeps them on one line", () => {
    expect(oneLine("a\nb")).toBe("a b");
    expect(oneLine("x".repeat(100), 10)).toBe(`${"x".repeat(9)}…`);
    expect(oneLine(undefined)).toBeUndefined();
  });

  it.each([
    [5, "5 s ago"],
    [300, "5 min ago"],
    [10_800, "3 h ago"],
    [864_000, "10 days ago"],
    [-5, "0 s ago"],
  ])("tells %i seconds in the unit that says enough", (seconds, text) => {
    expect(ago(new Date(1e12 - seconds * 1000), new Date(1e12))).toBe(text);
  });
});

describe("counted", () => {
  it.each([
    [0, "0 messages were"],
    [1, "1 message was"],
    [2, "2 messages were"],
  ])("agrees with %d", (count, text) => {
    expect(counted(count, "message", "was", "were")).toBe(text);
  });

  it("needs no verb", () => {
    expect(counted(1, "lock")).toBe("1 lock");
    expect(counted(3, "lock")).toBe("3 locks");
  });
});
