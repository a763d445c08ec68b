import { describe, expect, it } from "vitest";

import { contentOf, peekedMessage, redriveFilter } from "../../src/cli/commands/queue.js";
import { ago, oneLine, printOutcome, printRows } from "../../src/cli/print.js";
import type { PoisonDetails } from "../../src/index.js";
import { FakeTerminal } from "./fake-terminal.js";

const peeked = (messageText: string): Parameters<typeof peekedMessage>[0] =>
  ({ messageId: "m", messageText, insertedOn: new Date(1e12), expiresOn: new Date(2e12), dequeueCount: 1 });
const base64 = (text: string): string => Buffer.from(text).toString("base64");

describe("messages of others on the command line", () => {
  it("shows base64 as Azure Functions writes it decoded, and everything else as it is", () => {
    expect(contentOf(peekedMessage(peeked(base64('{"order":42}')), undefined))).toBe('{"order":42}');
    const reference = (ascOverflow: unknown): string => JSON.stringify({ asc: 1, key: "", body: { ascOverflow } });
    expect(peekedMessage(peeked(reference({ key: "order-1" })), undefined).key).toBe("order-1");
    for (const damaged of [null, 5, { key: 5 }]) expect(peekedMessage(peeked(reference(damaged)), undefined).key).toBe("");
    expect(contentOf(peekedMessage(peeked(base64("hello wörld")), undefined))).toBe("hello wörld");
    for (const text of ["password", "test", "abcd1234", "", base64("\u001b[2J"), Buffer.from([255, 254, 253, 252, 251, 250]).toString("base64")]) {
      expect(peekedMessage(peeked(text), undefined).content).toBe(text);
    }
    const asked = base64('{"order":42}');
    expect(peekedMessage(peeked(asked), "text").content).toBe(asked);
    const envelope = base64(JSON.stringify({ asc: 1, key: "k", body: 1 }));
    expect(peekedMessage(peeked(envelope), undefined)).toMatchObject({ key: "k", content: 1 });
  });

  it.each([null, 5, "x", [], {}, { reason: 5, insertedOn: "x", poisonedOn: {}, attempts: "\u001b[2J" }])("survives forged details: %j", (poison) => {
    const message = peekedMessage(peeked(JSON.stringify({ asc: 1, key: "k", body: 1, poison })), undefined);
    if (message.poison) expect(ago(message.poison.poisonedOn)).toMatch(/ago$/);
    expect(() => JSON.stringify(message)).not.toThrow();
  });

  it("shows the text of a message that is nested too deeply to be written as JSON, and the others beside it", () => {
    const deep = `{"asc":1,"key":"k","poison":{"reason":"r"},"body":${"[".repeat(30_000)}${"]".repeat(30_000)}}`;
    const messages = [deep, '{"asc":1,"key":"l","body":2}'].map((text) => peekedMessage(peeked(text), undefined));
    expect(messages).toMatchObject([{ key: "k", content: deep, poison: { reason: "r" } }, { key: "l", content: 2 }]);
    const terminal = new FakeTerminal();
    printRows({ terminal, json: true }, messages, {}, "");
    printRows({ terminal, json: false }, messages, { content: contentOf }, "");
    expect(terminal.stdout).toContain(`\n2\n`);
  });

  it.each([33, 3_000, 30_000])("shows a payload that is nested %i levels deep as text: it breaks no listing, and its indentation fills no memory", (depth) => {
    const text = `{"asc":1,"key":"k","body":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    const message = peekedMessage(peeked(text), undefined);
    expect(message).toMatchObject({ key: "k", content: text });
    expect(contentOf(message)).toMatch(/^\{"asc":1/);
    const terminal = new FakeTerminal();
    printRows({ terminal, json: true }, [message], {}, "");
    expect(terminal.stdout.length).toBeLessThan(2 * text.length + 1_000);
  });

  it("prints no control characters, not as JSON or as a sentence either, and no text without an end", () => {
    const hostile = "a\u001b[2Jb\u009b31mc\u202ed\u2028e\u007f";
    const terminal = new FakeTerminal();
    printRows({ terminal, json: true }, [{ hostile }], {}, "");
    expect(JSON.parse(terminal.stdout)).toEqual([{ hostile }]);
    printOutcome({ terminal, json: false }, hostile, {});
    expect(terminal.stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}\u2028]/u);
    expect(oneLine(`a${"\u0301".repeat(60_000)}`)!.length).toBeLessThan(1_000);
  });
});

describe("the filter of queue redrive", () => {
  const details = (more: Partial<PoisonDetails>): PoisonDetails =>
    ({ queue: "q", messageId: "m", insertedOn: new Date(0), poisonedOn: new Date(1e12), attempts: 1, reason: "Failed 5 times", error: "Error: timeout", ...more });
  const now = 1e12 + 2 * 3_600_000;

  it("moves all messages without options", () => {
    expect(redriveFilter({}, now)).toBeUndefined();
  });

  it.each([
    [{ reason: "failed" }, {}, true],
    [{ reason: "other" }, {}, false],
    [{ error: "TIMEOUT" }, {}, true],
    [{ error: "timeout" }, { error: undefined }, false],
    [{ olderThanHours: 2 }, {}, true],
    [{ olderThanHours: 3 }, {}, false],
    [{ reason: "failed", error: "other" }, {}, false],
  ])("%j on %j: %s", (options, more, expected) => {
    expect(redriveFilter(options, now)!(details(more))).toBe(expected);
    expect(redriveFilter(options, now)!(undefined)).toBe(false);
  });
});
