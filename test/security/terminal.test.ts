import { describe, expect, it } from "vitest";

import { blobMetadata, BlobLocks, overwrite, readTarget, runTransaction, tableEntity } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { FakeFleet } from "../schedule/fakes.js";
import { fakePartition } from "../transaction/fakes/partition.js";
import { OutgoingQueues } from "../../src/queue/outgoing.js";
import { run } from "../../src/cli/run.js";
import { confirm, jsonText } from "../../src/cli/terminal.js";
import { printable } from "../../src/errors.js";
import { FakeTerminal } from "../cli/fake-terminal.js";

/** What moves the cursor, hides or reverses text, or begins a line that looks like one of the program. */
const hostile = ["\u001b[2K\u001b[1G", "\r", "\n", "\u0007", "\u007f", "\u009b2J", "\u202e", "\u2066", "\u200b", "\u2028", "\ud800"];

describe("what another program has written", () => {
  it.each(hostile)("cannot change the line that the user confirms: %j", async (text) => {
    const terminal = new FakeTerminal({ answers: ["y"] });
    await confirm(terminal, `The lock "a" is held by host${text}nobody. The holder will lose it.`, false);
    expect(terminal.asked[0]).toMatch(/^The lock "a" is held by host .*nobody\. The holder will lose it\. Go on\? \[y\/N\] $/);
    expect(terminal.asked[0]).not.toContain(text);
  });

  it.each(hostile)("cannot change an error: %j", async (text) => {
    const plain = new FakeTerminal();
    await run(["locks", "break", `a${text}b`, "-c", "c"], plain);
    expect(plain.stderr).not.toContain(`a${text}b`);
    expect(printable(`a${text}b`)).toMatch(/^a [^\p{Cc}\p{Cf}]*b$/u);
    expect(jsonText({ text })).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
    expect(JSON.parse(jsonText({ text }))).toEqual({ text });
  });
});

it.each(hostile)("an argument that the command line rejects cannot change its error: %j", async (text) => {
  for (const args of [[`a${text}b`], ["locks", `a${text}b`], ["locks", "list", "-c", "c", `--a${text}b`], ["locks", "purge", "-c", "c", "--older-than-days", `a${text}b`], ["locks", "show", "n", `a${text}b`, "-c", "c"]]) {
    const terminal = new FakeTerminal();
    expect(await run(args, terminal), args.join(" ")).toBe(2);
    expect(terminal.stderr).toMatch(/^error: [^\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]*\n$/u);
  }
});

describe("what a caller passes, and may have from one of its users", () => {
  const { table } = fakePartition();
  const calls: [string, (text: string) => unknown][] = [
    ["the key of an entity", (text) => readTarget(tableEntity(table, `a/${text}`, "r"))],
    ["the key of a transaction", (text) => runTransaction(table, `a/${text}`, () => undefined)],
    ["a row of a transaction", (text) => runTransaction(table, "p", (tx) => tx.update({ rowKey: `a/${text}`, n: 1 }))],
    ["an entity of another partition", (text) => runTransaction(table, "p", (tx) => tx.upsert({ partitionKey: text, rowKey: "r", n: 1 }))],
    ["an option", (text) => readTarget(tableEntity(table, "p", "r"), { [text]: 1 })],
    ["a key of metadata", (text) => overwrite(blobMetadata(new FakeLeaseServer().container().getBlockBlobClient("b")), { a: text })],
    ["a job", (text) => new FakeFleet().instance({}).schedule.trigger(text)],
    ["an event", (text) => new FakeFleet().instance({}).schedule.on(text as never, () => undefined)],
    ["a lock inside of itself", (text) => {
      const locks = new BlobLocks(new FakeLeaseServer().container());
      return locks.withLock(`a${text}`, () => locks.withLock(`a${text}`, () => undefined));
    }],
  ];

  it.each(calls)("adds no line and no control sequence to an error: %s", async (_, call) => {
    for (const text of hostile) {
      const error = await Promise.resolve().then(() => call(text)).then(() => undefined, (thrown: unknown) => thrown as Error);
      expect(error?.message, JSON.stringify(text)).toBeDefined();
      expect(error?.message).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/u);
    }
  });
});

it("the help says that a connection string on the command line is visible", async () => {
  const terminal = new FakeTerminal();
  await run(["--help"], terminal);
  expect(terminal.stdout.replace(/\s+/g, " ")).toContain("other users of the machine can see it: prefer AZURE_STORAGE_CONNECTION_STRING");
});

it("the error of a message for an unknown queue has the name of the queue on one line: a row of an outbox may name any", () => {
  const queue = "a:b\u001b[2J\nc\u202e\u009b";
  expect(() => new OutgoingQueues([]).clientOf({ queue, key: "k", text: "t", timing: {} })).toThrow(/^A message to queue a:b \[2J c\s+was committed/);
});
