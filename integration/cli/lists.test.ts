import { randomUUID } from "node:crypto";

import type { QueueClient } from "@azure/storage-queue";
import { describe, expect, it } from "vitest";

import { run } from "../../src/cli/run.js";
import { BlobLocks, enqueueMany, Outbox, redrive, runTransaction, TableLock } from "../../src/index.js";
import { queueIdentityOf } from "../../src/queue/inbox/record.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";
import { azurite, freshContainer, freshName, freshQueue, freshTable, queueClient } from "../support/clients.js";

function terminalWith(answers?: string[]): FakeTerminal {
  return new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: azurite().connectionString }, ...(answers && { answers }) });
}

/** What the command prints, with exit code 0. */
async function shown(...args: string[]): Promise<string> {
  const terminal = terminalWith(["y"]);
  expect(await run(args, terminal), terminal.stderr).toBe(0);
  return terminal.stdout;
}

async function json<T>(...args: string[]): Promise<T> {
  return JSON.parse(await shown("--json", ...args)) as T;
}

describe("leases list", () => {
  it("shows the container and the blobs that are leased, with the holder of a lock, and no others", async () => {
    const container = await freshContainer();
    const names = ["a/1", "a/2", "b/1"];
    for (const name of names) await container.getBlockBlobClient(name).upload("x", 1);
    await container.getBlobClient("a/1").getBlobLeaseClient().acquireLease(60);
    await container.getBlobClient("b/1").getBlobLeaseClient().acquireLease(-1);
    await container.getBlobLeaseClient().acquireLease(15);
    const held = await new BlobLocks(container, { holder: "orders-7" }).acquire("nightly");
    const all = await json<{ target: string; state: string; duration: string; holder?: string; epoch?: number }[]>("leases", "list", "-c", container.containerName);
    expect(all.map(({ target, duration }) => [target.slice(container.containerName.length), duration])).toEqual([
      ["", "fixed"],
      ["/a/1", "fixed"],
      ["/b/1", "infinite"],
      ["/locks/nightly", "fixed"],
    ]);
    expect(all[3]).toMatchObject({ holder: "orders-7", epoch: held.epoch });
    await held.release();
    expect(await json("leases", "list", "-c", container.containerName, "--blob-prefix", "a/")).toMatchObject([{ target: `${container.containerName}/a/1` }]);
    expect(await shown("leases", "list", "-c", container.containerName, "--blob-prefix", "c")).toBe("Nothing is leased.\n");
    expect(await run(["leases", "list", "-c", freshName()], terminalWith())).toBe(3);
  });
});

describe("locks of tables", () => {
  it("have readable names, and are shown and broken by what they lock", async () => {
    const [container, table] = await Promise.all([freshContainer(), freshTable()]);
    const locks = new BlobLocks(container, { holder: "batch-1" });
    const held = await new TableLock(table, locks, { granularity: "entity" }).acquire({ partitionKey: "eu", rowKey: "o 7" });
    const c = ["-c", container.containerName];
    expect(await shown("locks", "list", "--held", ...c)).toContain(`table ${table.tableName}, partition "eu", row "o 7"  leased`);
    expect(await json("locks", "list", "--held", ...c)).toMatchObject([{ table: table.tableName, partitionKey: "eu", rowKey: "o 7" }]);
    const key = ["--table", table.tableName, "--partition", "eu", "--row", "o 7"];
    expect(await shown("locks", "show", ...key, ...c)).toMatch(/\nrowKey +o 7\n/);
    expect(await run(["locks", "show", "--table", table.tableName, "--partition", "us", ...c], terminalWith())).toBe(3);
    const asked = terminalWith(["y"]);
    expect(await run(["locks", "break", ...key, ...c], asked)).toBe(0);
    expect(asked.asked[0]).toContain(`The table ${table.tableName}, partition "eu", row "o 7" (epoch`);
    await held.release().catch(() => undefined);
    for (const args of [[], ["a", "--table", "t"], ["--partition", "p"], ["--table", "t", "--row", "r"]]) {
      const terminal = terminalWith();
      expect(await run(["locks", "show", ...args, ...c], terminal)).toBe(2);
      expect(terminal.stderr).toContain("--table");
    }
  });

  it("can be selected by the beginning of their names", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container);
    for (const name of ["day/1", "day/2", "night/1"]) await locks.withLock(name, () => undefined);
    const listed = await json<{ name: string }[]>("locks", "list", "-c", container.containerName, "--name-prefix", "day/");
    expect(listed.map(({ name }) => name)).toEqual(["day/1", "day/2"]);
  });
});

describe("queue stats", () => {
  it("shows length and age of queues and of their poison queues", async () => {
    const [orders, empty] = await Promise.all([freshQueue(), freshQueue()]);
    const poison = queueClient(`${orders.name}-poison`);
    await poison.create();
    await enqueueMany(orders, [1, 2, 3].map((payload) => ({ payload })));
    await poison.sendMessage("x");
    const found = await json<{ queue: string; messages: number; poisonMessages?: number; oldestInsertedOn?: string }[]>("queue", "stats", empty.name, orders.name);
    expect(found).toEqual([
      { queue: empty.name, messages: 0, hiddenMessages: 0 },
      { queue: orders.name, messages: 3, poisonMessages: 1, hiddenMessages: 0, oldestInsertedOn: expect.any(String) as string },
    ]);
    expect(await shown("queue", "stats", orders.name)).toMatch(new RegExp(`^QUEUE .*POISON\\n${orders.name} +3 +\\d+ s ago +1\\n$`));
    const all = await json<{ queue: string }[]>("queue", "stats");
    expect(all.map(({ queue }) => queue)).toEqual(expect.arrayContaining([orders.name, empty.name]));
    // Beside its queue.
    expect(all.map(({ queue }) => queue)).not.toContain(poison.name);
    expect(await run(["queue", "stats", freshName()], terminalWith())).toBe(3);
  });
});

/** A poison queue with that many messages of one reason, and one of another. */
async function poisonOf(count: number): Promise<{ queue: QueueClient; poison: QueueClient }> {
  const queue = await freshQueue();
  const poison = queueClient(`${queue.name}-poison`);
  await poison.create();
  const text = (n: number, reason: string): string => JSON.stringify({ asc: 1, key: `k${n}`, body: n, poison: { reason, attempts: 5, poisonedOn: new Date().toISOString() } });
  for (let n = 0; n < count; n++) await poison.sendMessage(text(n, n === count - 1 ? "too large" : "failed 5 times"));
  return { queue, poison };
}

describe("queue poison", () => {
  it("shows more messages than can be peeked, and those that match, and leaves all of them visible", async () => {
    const { queue, poison } = await poisonOf(40);
    expect(await json<unknown[]>("queue", "poison", queue.name)).toHaveLength(32);
    const all = await json<{ key: string }[]>("queue", "poison", queue.name, "--count", "100");
    expect(new Set(all.map(({ key }) => key)).size).toBe(40);
    expect((await poison.peekMessages({ numberOfMessages: 32 })).peekedMessageItems).toHaveLength(32);
    const matching = await json<{ key: string }[]>("queue", "poison", queue.name, "--reason", "LARGE");
    expect(matching.map(({ key }) => key)).toEqual(["k39"]);
    expect(await json<unknown[]>("queue", "poison", queue.name, "--reason", "failed", "--count", "35")).toHaveLength(35);
    expect(await shown("queue", "poison", queue.name, "--older-than-hours", "1")).toBe("No message matches.\n");
    const { receivedMessageItems } = await poison.receiveMessages({ numberOfMessages: 32 });
    expect(receivedMessageItems).toHaveLength(32);
  });
});

describe("queue redrive", () => {
  it("moves only what was there when it was shown", async () => {
    const { queue, poison } = await poisonOf(2);
    const terminal = terminalWith(["y"]);
    const ask = terminal.ask.bind(terminal);
    terminal.ask = async (question) => {
      // The clock of the service that tells what is new has seconds.
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      await poison.sendMessage("new");
      return ask(question);
    };
    expect(await run(["queue", "redrive", queue.name], terminal)).toBe(0);
    expect(terminal.asked[0]).toContain("About 2 messages are in");
    expect(terminal.stdout).toBe(`2 messages were moved to ${queue.name}. 1 stayed: they were moved there meanwhile, or cannot be sent.\n`);
    expect((await poison.peekMessages()).peekedMessageItems).toMatchObject([{ messageText: "new" }]);
  });

  it("does not take a time that is none", async () => {
    const { queue, poison } = await poisonOf(1);
    await expect(redrive(poison, queue, { insertedBefore: new Date(Number.NaN) })).rejects.toThrow(new TypeError("redrive: insertedBefore must be a valid Date"));
  });
});

describe("outbox", () => {
  it("lists what is not sent, and sends what ended processes left", async () => {
    const [table, orders, other] = await Promise.all([freshTable(), freshQueue(), freshQueue()]);
    expect(await shown("outbox", "list", table.tableName)).toBe("All messages are sent.\n");
    expect(await shown("outbox", "flush", table.tableName)).toBe("All messages are sent.\n");
    const outbox = new Outbox(table, { queues: [orders, other], relayAfterInMs: 1_000 });
    // The queue is missing, so the message stays.
    await orders.delete();
    await runTransaction(table, "eu", (tx) => {
      tx.create({ rowKey: "order-17" });
      outbox.add(tx, orders, { order: 17 }, { idempotencyKey: "order-17" });
    });
    await outbox.stop();
    const listed = await json<{ queue: string; idempotencyKey: string }[]>("outbox", "list", table.tableName);
    expect(listed).toMatchObject([{ queue: expect.stringContaining(orders.name) as string, idempotencyKey: "order-17" }]);
    expect(await shown("outbox", "list", table.tableName)).toMatch(/order-17 +\d+ s ago/);
    const asked = terminalWith(["n"]);
    expect(await run(["outbox", "flush", table.tableName], asked)).toBe(5);
    expect(asked.asked[0]).toContain(`1 message is not sent yet. What is older than 30 seconds will be sent to ${orders.name}.`);
    // It is young: its process could still send it.
    expect(await json("outbox", "flush", table.tableName, "--yes")).toEqual({ sent: 0, failed: 0 });
    await new Promise((resolve) => setTimeout(resolve, 2_100));
    const flush = ["outbox", "flush", table.tableName, "--yes", "--older-than-seconds", "1"];
    const failing = terminalWith();
    expect(await run(flush, failing)).toBe(1);
    expect(failing.stderr).toMatch(/^0 messages were sent, 1 could not be sent: .*\n$/);
    await orders.create().catch(() => undefined);
    await expect.poll(() => shown(...flush), { timeout: 20_000, interval: 1_000 }).toBe("1 message was sent.\n");
    expect((await orders.peekMessages()).peekedMessageItems[0]?.messageText).toContain("order-17");
    expect(await shown("outbox", "list", table.tableName)).toBe("All messages are sent.\n");
  });

  it.each(["..", "../../x", "", "%zz", "/evil.test/x", "\\evil"])("sends the others although a row names the queue %j", async (name) => {
    const [table, orders] = await Promise.all([freshTable(), freshQueue()]);
    const account = queueIdentityOf(orders.url).split(":")[0] ?? "";
    for (const [partitionKey, queue] of [["forged", `${account}:${name}`], ["eu", queueIdentityOf(orders.url)]] as const) {
      const id = randomUUID();
      await table.createEntity({ partitionKey, rowKey: `~asc~outbox!${id}!000000000001`, outgoing0: JSON.stringify([{ queue, key: "k", text: "order-17", timing: {} }]) });
      await table.createEntity({ partitionKey: "~asc~outbox", rowKey: `~asc~outmarker!${id}`, partition: partitionKey });
    }
    await new Promise((resolve) => setTimeout(resolve, 2_100));
    const terminal = terminalWith();
    expect(await run(["outbox", "flush", table.tableName, "--yes", "--older-than-seconds", "1"], terminal)).toBe(1);
    expect(terminal.stderr).toMatch(/^1 message was sent, 1 could not be sent: /);
    expect((await orders.peekMessages()).peekedMessageItems.map(({ messageText }) => messageText)).toEqual(["order-17"]);
  });
});
