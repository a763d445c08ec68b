import type { ContainerClient } from "@azure/storage-blob";
import type { QueueClient } from "@azure/storage-queue";
import type { TableClient } from "@azure/data-tables";
import { describe, expect, it } from "vitest";

import { ClaimInbox, enqueue, redrive } from "../../src/index.js";
import { startFaultProxy } from "../../src/testing.js";
import type { FaultPredicate, FaultRule } from "../../src/testing.js";
import { azurite, connectionString, freshContainer, freshQueue, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker } from "../support/workers.js";
import { bank, consumerOf, group, log } from "./killed-steps.js";
import type { Invoice, KilledConfig, Step, Transfer } from "./killed-steps.js";

/**
 * A process is killed (`kill -9`) at its request number k, for each k until it ends before that: when the service has carried out the
 * request and its response is not delivered, and, before the first request, when nothing was sent. The moment before request k + 1 is the
 * same for the storage as that after request k; `KILL_POINTS=all` runs both.
 */
const both = process.env["KILL_POINTS"] === "all";
const timeoutInMs = 600_000;
/** Processes at the same time. */
const parallel = 3;

interface Place {
  readonly queue: QueueClient;
  readonly poisonQueue: QueueClient;
  readonly invoices: QueueClient;
  readonly table: TableClient;
  readonly container: ContainerClient;
  readonly config: KilledConfig;
}

/** Before or after the request number k; or after the first one that `of` recognises, for moments that are a test's subject. */
type Point = { readonly k: number; readonly side: "before" | "after" } | { readonly of: FaultPredicate; readonly name: string };

function nameOf(point: Point): string {
  return "of" in point ? `killed after ${point.name}` : `killed ${point.side} request ${point.k}`;
}

async function freshPlace(step: Step, messages: number): Promise<Place> {
  const [queue, poisonQueue, invoices, table, container] = await Promise.all([freshQueue(), freshQueue(), freshQueue(), freshTable(), freshContainer()]);
  await container.getAppendBlobClient(log).create();
  const config = { step, connectionString: connectionString(), queue: queue.name, poisonQueue: poisonQueue.name, invoices: invoices.name, table: table.tableName, container: container.containerName, messages };
  return { queue, poisonQueue, invoices, table, container, config };
}

/** Whether it was killed at this point, or had ended before. */
async function killAt({ config }: Place, point: Point): Promise<boolean> {
  const state = { killed: false };
  const kill = (): boolean => {
    state.killed = true;
    worker.signal("SIGKILL");
    return true;
  };
  let requests = 0;
  const rule: FaultRule =
    "of" in point
      ? { action: { kind: "hang", at: "response" }, when: point.of, whenResponse: kill }
      : point.side === "before"
        ? { action: { kind: "hang", at: "request" }, when: () => ++requests >= point.k && kill() }
        : { action: { kind: "hang", at: "response" }, when: () => ++requests === point.k, whenResponse: kill };
  const { blobUrl, queueUrl, tableUrl } = azurite();
  const proxies = await Promise.all([blobUrl, queueUrl, tableUrl].map((url) => startFaultProxy(url, [rule])));
  const [blob, queue, table] = proxies.map(({ url }) => url);
  const through = { ...config, connectionString: connectionString({ blobUrl: blob!, queueUrl: queue!, tableUrl: table! }) };
  const worker = startWorker(new URL("./workers/killed.ts", import.meta.url), through, { timeoutInMs: 60_000 });
  const { code } = await worker.exited;
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  // Anything else would be a step that fails by itself, and proves nothing.
  expect(state.killed || code === 0, `ended with code ${code ?? "none"}`).toBe(true);
  return state.killed;
}

/** Runs `check` for each point, in a place of its own, until a process ends by itself. Returns how many kills there were. */
async function atEachPoint(check: (point: Point) => Promise<boolean>): Promise<number> {
  const points = function* (): Generator<Point> {
    yield { k: 1, side: "before" };
    for (let k = 1; ; k++) {
      if (both && k > 1) yield { k, side: "before" };
      yield { k, side: "after" };
    }
  };
  const next = points();
  let [kills, ended] = [0, false];
  await Promise.all(Array.from({ length: parallel }, async () => {
    while (!ended) {
      const { value } = next.next() as IteratorYieldResult<Point>;
      if (await check(value)) kills++;
      else ended = true;
    }
  })); // prettier-ignore
  return kills;
}

/** Another process takes over, and goes on until the queue is empty. */
async function finish(config: KilledConfig, queue: QueueClient): Promise<void> {
  const consumer = consumerOf(config);
  consumer.on("error", () => undefined);
  await consumer.start();
  for (let polls = 0; polls < 1_200 && !(await isEmpty(queue)); polls++) await pause(25);
  await consumer.stop();
  expect(await isEmpty(queue)).toBe(true);
}

async function isEmpty(queue: QueueClient): Promise<boolean> {
  return (await queue.getProperties()).approximateMessagesCount === 0;
}

async function effects(container: ContainerClient): Promise<Map<string, number>> {
  const text = (await container.getBlobClient(log).downloadToBuffer()).toString();
  const counts = new Map<string, number>();
  for (const key of text.split("\n").filter((line) => line !== "")) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

const transfers: readonly Transfer[] = [
  { from: "a", to: "b", amount: 10 },
  { from: "c", to: "d", amount: 7 },
];
const keys = transfers.map((_, i) => `key-${i}`);

async function send(queue: QueueClient): Promise<void> {
  for (const [i, transfer] of transfers.entries()) await enqueue(queue, transfer, { idempotencyKey: keys[i] });
}

describe("a process that is killed at any of its requests", () => {
  it("with claims: appends once, and again only if it died between the append and the record", async () => {
    const check = async (point: Point): Promise<{ killed: boolean; repeats: number }> => {
      const place = await freshPlace("claim", 2);
      await send(place.queue);
      const killed = await killAt(place, point);
      const before = await effects(place.container);
      const inbox = new ClaimInbox(place.table);
      const states = await Promise.all(keys.map((key) => inbox.get(place.queue, key)));
      await finish(place.config, place.queue);
      const after = await effects(place.container);
      let repeats = 0;
      for (const [i, key] of keys.entries()) {
        const expected = (before.get(key) ?? 0) + (states[i]?.state === "completed" ? 0 : 1);
        expect(after.get(key), `${key}, ${nameOf(point)}`).toBe(expected);
        if (expected > 1) repeats++;
      }
      expect(await isEmpty(place.poisonQueue)).toBe(true);
      return { killed, repeats };
    };
    // Receive, claim, two appends, completions, two deletes; and four to start.
    expect(await atEachPoint(async (point) => (await check(point)).killed)).toBeGreaterThanOrEqual(9);
    // A claim cannot make an effect elsewhere exactly once.
    const append: Point = { name: "an append", of: ({ query }) => query.get("comp") === "appendblock" };
    expect(await check(append)).toEqual({ killed: true, repeats: 1 });
  }, timeoutInMs);

  it("with commits: each transfer is applied exactly once, and no money is made or lost", async () => {
    const kills = await atEachPoint(async (point) => {
      const place = await freshPlace("commit", 2);
      for (const rowKey of ["a", "b", "c", "d"]) await place.table.createEntity({ partitionKey: bank, rowKey, balance: 100 });
      await send(place.queue);
      const killed = await killAt(place, point);
      await finish(place.config, place.queue);
      const balances = await Promise.all(["a", "b", "c", "d"].map(async (rowKey) => (await place.table.getEntity<{ balance: number }>(bank, rowKey)).balance));
      expect(balances, nameOf(point)).toEqual([90, 110, 93, 107]);
      expect(await isEmpty(place.poisonQueue)).toBe(true);
      return killed;
    });
    expect(kills).toBeGreaterThanOrEqual(10);
  }, timeoutInMs);

  it("with a transaction that sends: the transfer is applied exactly once, and its invoice is sent, always with the same key", async () => {
    const check = async (point: Point): Promise<{ killed: boolean; repeats: number }> => {
      const place = await freshPlace("chain", 1);
      for (const rowKey of ["a", "b"]) await place.table.createEntity({ partitionKey: bank, rowKey, balance: 100 });
      await enqueue(place.queue, transfers[0], { idempotencyKey: "key-0" });
      const killed = await killAt(place, point);
      await finish(place.config, place.queue);
      const balances = await Promise.all(["a", "b"].map(async (rowKey) => (await place.table.getEntity<{ balance: number }>(bank, rowKey)).balance));
      const at = nameOf(point);
      expect(balances, at).toEqual([90, 110]);
      const { receivedMessageItems } = await place.invoices.receiveMessages({ numberOfMessages: 32 });
      const sent = receivedMessageItems.map(({ messageText }) => JSON.parse(messageText) as { key: string; body: Invoice });
      const byKey = new Map(sent.map(({ key, body }) => [key, body]));
      expect([...byKey.values()], at).toEqual([{ of: "key-0", amount: 10 }]);
      expect(await isEmpty(place.poisonQueue)).toBe(true);
      return { killed, repeats: sent.length - 1 };
    };
    // Receive, read, commit, send and delete; and three to start.
    expect(await atEachPoint(async (point) => (await check(point)).killed)).toBeGreaterThanOrEqual(7);
    // Nothing remembers that a message was sent before the incoming one is deleted. The worker sends to no other queue.
    const send: Point = { name: "the send", of: ({ method, path }) => method === "POST" && path.endsWith("/messages") };
    expect(await check(send)).toEqual({ killed: true, repeats: 1 });
  }, timeoutInMs);

  it("with a sequence of a group, one with its payload in a blob: all are handled in their order, and the group is free", async () => {
    const kills = await atEachPoint(async (point) => {
      const place = await freshPlace("group", 2);
      for (const sequence of [1, 2]) {
        const payload = { n: sequence, filling: "x".repeat(sequence === 2 ? 70_000 : 1) };
        await enqueue(place.queue, payload, { idempotencyKey: `key-${sequence}`, group, sequence, overflow: place.container });
      }
      const killed = await killAt(place, point);
      await finish(place.config, place.queue);
      const at = nameOf(point);
      // In the order of their first lines. One is repeated if the process died between its append and its record, and never after a later one.
      const lines = (await place.container.getBlobClient(log).downloadToBuffer()).toString().trim().split("\n");
      expect([...new Set(lines)], at).toEqual(["key-1", "key-2"]);
      expect(lines, at).toEqual(lines.toSorted());
      expect(lines.length, at).toBeLessThanOrEqual(3);
      expect(await new ClaimInbox(place.table).getGroup(place.queue, group), at).toMatchObject({ lastSequence: 2, holder: undefined });
      expect(await isEmpty(place.poisonQueue), at).toBe(true);
      return killed;
    });
    // Receive, claim, the blob, two appends, hand-over and completion, two deletes and that of the blob; and five to start.
    expect(kills).toBeGreaterThanOrEqual(12);
  }, timeoutInMs);

  it("while it moves a message to the poison queue: the message is in one of both, and takes effect once after a redrive", async () => {
    const kills = await atEachPoint(async (point) => {
      const place = await freshPlace("poison", 1);
      await enqueue(place.queue, transfers[0], { idempotencyKey: "key-0" });
      const killed = await killAt(place, point);
      await finish(place.config, place.queue);
      expect(await isEmpty(place.poisonQueue)).toBe(false);
      await redrive(place.poisonQueue, place.queue);
      await finish({ ...place.config, step: "claim" }, place.queue);
      expect([...(await effects(place.container))], nameOf(point)).toEqual([["key-0", 1]]);
      return killed;
    });
    expect(kills).toBeGreaterThanOrEqual(7);
  }, timeoutInMs);

  it("while it redrives: no message is lost, and each takes effect once", async () => {
    const kills = await atEachPoint(async (point) => {
      const place = await freshPlace("redrive", 0);
      const details = { reason: "r", attempts: 5, queue: place.queue.name, messageId: "m", insertedOn: "", poisonedOn: "", encoding: "text" };
      for (const key of keys) await place.poisonQueue.sendMessage(JSON.stringify({ asc: 1, key, body: {}, poison: details }));
      const killed = await killAt(place, point);
      // What it has received and not moved is hidden for a while: it still counts.
      const left = (await place.poisonQueue.getProperties()).approximateMessagesCount ?? 0;
      await finish({ ...place.config, step: "claim" }, place.queue);
      const moved = await effects(place.container);
      expect(moved.size + left, nameOf(point)).toBeGreaterThanOrEqual(keys.length);
      expect([...moved.values()].filter((count) => count !== 1)).toEqual([]);
      return killed;
    });
    expect(kills).toBeGreaterThanOrEqual(6);
  }, timeoutInMs);

  it("while it sends: the same key again takes effect once", async () => {
    const kills = await atEachPoint(async (point) => {
      const place = await freshPlace("enqueue", 0);
      const killed = await killAt(place, point);
      await enqueue(place.queue, { n: 0 }, { idempotencyKey: "key-0" });
      await finish({ ...place.config, step: "claim" }, place.queue);
      expect([...(await effects(place.container))], nameOf(point)).toEqual([["key-0", 1]]);
      return killed;
    });
    expect(kills).toBe(2);
  }, timeoutInMs);
});
