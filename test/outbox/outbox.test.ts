import { beforeEach, describe, expect, it, vi } from "vitest";

import { ConcurrentTable, Once, Outbox, runTransaction } from "../../src/index.js";
import type { ContainerLike } from "../../src/index.js";
import { FakeContainer } from "../queue/fakes/fake-container.js";
import { answer, before, ghost, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { after, OutboxWorld, stopOutboxes, turns } from "./fakes.js";
import type { FakeProcess } from "./fakes.js";

useFakeTimers();
stopOutboxes();
// No delay after a conflict.
beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  return () => void vi.restoreAllMocks();
});

function order({ table, outbox }: FakeProcess, world: OutboxWorld, rowKey: string, partitionKey = "p"): Promise<void> {
  return runTransaction(table, partitionKey, (tx) => {
    tx.create({ rowKey, total: 3 });
    outbox.add(tx, world.queue, { order: rowKey });
  });
}

describe("a message of a transaction", () => {
  it("is sent after the commit, and leaves nothing behind", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    await order(process, world, "o1");
    await turns();
    expect(world.payloads()).toEqual([{ order: "o1" }]);
    expect(process.relayed).toEqual([false]);
    expect(world.rows()).toEqual({ messages: 0, markers: 1 });
    await process.outbox.stop();
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
    expect(world.table.rowKeys()).toEqual(["o1"]);
  });

  it("costs a marker for all transactions of the partition, and for each a commit, a send and a delete", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    for (const rowKey of ["o1", "o2", "o3"]) {
      await order(process, world, rowKey);
      await turns();
    }
    expect(world.service.operations).toEqual(["upsertEntity", "submitTransaction", "deleteEntity", "submitTransaction", "deleteEntity", "submitTransaction", "deleteEntity"]);
    expect(world.queue.faults.log).toEqual(["send", "send", "send"]);
    await process.outbox.stop();
    expect(world.service.operations.slice(7)).toEqual(["deleteEntity"]);
  });

  it("shares commits, deletes and the markers of several partitions with those of other callers", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    await Promise.all(Array.from({ length: 20 }, (_, i) => order(process, world, `o${i}`)));
    await turns();
    expect(world.payloads()).toHaveLength(20);
    expect(world.rows()).toEqual({ messages: 0, markers: 1 });
    // 16 are sent at the same time, and their rows deleted together.
    expect(world.service.operations).toEqual(["upsertEntity", "submitTransaction", "submitTransaction", "submitTransaction"]);
    world.service.requests.length = 0;
    await Promise.all(Array.from({ length: 20 }, (_, i) => order(process, world, "o", `q${i}`)));
    await turns();
    expect(world.service.count("submitTransaction")).toBe(1 + 20);
    expect(world.rows()).toEqual({ messages: 0, markers: 21 });
    await process.outbox.stop();
    expect(world.service.operations.at(-1)).toBe("submitTransaction");
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
  });

  it("is in the queue with key, delay and group; several of one transaction are one row", async () => {
    const world = new OutboxWorld();
    const { outbox, table } = world.process();
    await runTransaction(table, "p", (tx) => {
      outbox.add(tx, world.queue, 1, { idempotencyKey: "one", delayInMs: 5_000 });
      outbox.add(tx, world.other, 2);
      outbox.add(tx, world.queue, 3, { group: "g" });
    });
    expect(table.submitted.at(-1)).toHaveLength(1);
    await turns();
    expect(world.payloads()).toEqual([1, 3]);
    expect(world.queue.visible).toHaveLength(1);
    expect(world.payloads(world.other)).toEqual([2]);
    expect(world.keys()[0]).toBe("one");
    expect(world.keys()[1]).toMatch(/^[0-9a-f-]{36}\/2$/);
    await outbox.stop();
  });

  it("is not sent if the function throws, or nothing is committed for another reason", async () => {
    const world = new OutboxWorld();
    const { outbox, table } = world.process();
    const failing = runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "o" });
      outbox.add(tx, world.queue, 1);
      throw new Error("no");
    });
    expect(await rejection(failing)).toMatchObject({ message: "no" });
    world.table.put({}, "p", "exists");
    const rejected = runTransaction(table, "p", (tx) => {
      outbox.add(tx, world.queue, 1);
      tx.create({ rowKey: "exists" });
    });
    expect(await rejection(rejected)).toMatchObject({ code: "ALREADY_EXISTS" });
    await turns();
    expect(world.queue.messages).toEqual([]);
    expect(world.rows().messages).toBe(0);
    await outbox.stop();
  });

  it("is sent once with one key, however often conflicts make the function run", async () => {
    const world = new OutboxWorld();
    const { outbox, table } = world.process();
    world.table.put({ n: { type: "Int32", value: 0 } }, "p", "a");
    const conflict = before(() => world.table.merge({ n: { type: "Int32", value: 5 } }, "p", "a"));
    world.service.next("submitTransaction", conflict, conflict);
    const keys: number[] = [];
    await runTransaction(table, "p", async (tx) => {
      const { n } = (await tx.get<{ n: number }>("a"))!;
      keys.push(n);
      tx.update({ rowKey: "a", n: n + 1 });
      outbox.add(tx, world.queue, { n });
    });
    await turns();
    expect(keys).toEqual([0, 5, 5]);
    // The key is the same in each run: if two of them were committed, an inbox would recognise the second message.
    const stored = table.submitted.map((actions) => actions.map(([, entity]) => entity["outgoing0"]).find((text) => text !== undefined) as { value: string });
    expect(stored).toHaveLength(3);
    expect(new Set(stored.map(({ value }) => (JSON.parse(value) as { key: string }[])[0]?.key)).size).toBe(1);
    expect(world.payloads()).toEqual([{ n: 5 }]);
    expect(world.rows().messages).toBe(0);
    await outbox.stop();
  });

  it("is sent if the response to the commit is lost, and found to be committed", async () => {
    for (const fault of [loseAnswer, loseAnswerForGood, loseRequest]) {
      const world = new OutboxWorld();
      const process = world.process();
      world.table.put({ n: { type: "Int32", value: 0 } }, "p", "a");
      world.service.next("submitTransaction", fault);
      const done = runTransaction(process.table, "p", async (tx) => {
        await tx.get("a");
        tx.update({ rowKey: "a", n: 1 });
        process.outbox.add(tx, world.queue, 1);
      });
      await after(10_000);
      await done;
      expect([world.payloads(), world.rows()]).toEqual([[1], { messages: 0, markers: 1 }]);
      await process.outbox.stop();
    }
  });

  it("is not sent twice if an operation is repeated with its id", async () => {
    const world = new OutboxWorld();
    const [a, b] = [world.process(), world.process()];
    const place = ({ outbox, table }: FakeProcess): Promise<void> =>
      runTransaction(table, "p", (tx) => {
        tx.upsert({ rowKey: "o", total: 3 });
        outbox.add(tx, world.queue, 1);
      }, { operationId: "op-1" });
    await place(a);
    await place(b);
    await Promise.all([place(a), place(a), place(b)]);
    await turns();
    expect(world.payloads()).toEqual([1]);
    expect(world.rows().messages).toBe(0);
    await Promise.all([a, b].map(({ outbox }) => outbox.stop()));
  });

  describe("alone in its transaction, whose outcome is unknown, and which is repeated with the id of the error", () => {
    const notify = ({ table, outbox }: FakeProcess, world: OutboxWorld, operationId?: string): Promise<void> =>
      runTransaction(table, "p", (tx) => outbox.add(tx, world.queue, "paid"), { operationId });

    async function withUnknownOutcome(fault: Fault): Promise<{ world: OutboxWorld; process: FakeProcess; id: string }> {
      const world = new OutboxWorld();
      const process = world.process();
      // The commit has no response, and neither have the reads that look for it.
      world.service.next("submitTransaction", fault);
      let isReadable = false;
      world.service.each("getEntity", (exchange) => (isReadable ? exchange.send() : loseRequest(exchange)));
      const error = await rejection(inFakeTime(notify(process, world)));
      isReadable = true;
      expect(error["code"]).toBe("COMMIT_UNKNOWN");
      return { world, process, id: String(error["operationId"]) };
    }

    it("is sent once if it is committed, and not sent yet", async () => {
      const { world, process, id } = await withUnknownOutcome(loseAnswerForGood);
      await inFakeTime(notify(process, world, id));
      await inFakeTime(process.outbox.flush());
      await after(600_000);
      await process.outbox.flush();
      expect(world.payloads()).toEqual(["paid"]);
    });

    it("is sent once if a relay has sent it before: the outcome stays unknown", async () => {
      const { world, process, id } = await withUnknownOutcome(loseAnswerForGood);
      await after(600_000);
      await process.outbox.flush();
      expect(world.payloads()).toEqual(["paid"]);
      expect(await rejection(inFakeTime(notify(process, world, id)))).toMatchObject({ code: "COMMIT_UNKNOWN", operationId: id });
      await process.outbox.flush();
      expect(world.payloads()).toEqual(["paid"]);
    });

    it("is sent once if the first commit arrives late: the outcome stays unknown", async () => {
      const late = ghost();
      const { world, process, id } = await withUnknownOutcome(late.fault);
      expect(await rejection(inFakeTime(notify(process, world, id)))).toMatchObject({ code: "COMMIT_UNKNOWN", operationId: id });
      late.arrive();
      await after(600_000);
      await process.outbox.flush();
      expect(world.payloads()).toEqual(["paid"]);
      expect(process.errors).toEqual([]);
    });
  });

  it("is part of a call of Once.runTransaction", async () => {
    const world = new OutboxWorld();
    const { outbox, table } = world.process();
    const call = (): Promise<unknown> =>
      new Once(table).runTransaction("k", "p", (tx) => {
        tx.create({ rowKey: "o" });
        outbox.add(tx, world.queue, 1);
        return 17;
      });
    expect(await call()).toMatchObject({ value: 17, replayed: false });
    expect(await call()).toMatchObject({ value: 17, replayed: true });
    await turns();
    expect(world.payloads()).toEqual([1]);
    await outbox.stop();
  });

  it("with a large payload is stored in a blob before the commit", async () => {
    const world = new OutboxWorld();
    const { outbox, table } = world.process();
    const overflow = new FakeContainer() as unknown as ContainerLike;
    const large = "x".repeat(100_000);
    await runTransaction(table, "p", (tx) => {
      expect(() => outbox.add(tx, world.queue, large)).toThrow(RangeError);
      outbox.add(tx, world.queue, large, { overflow });
    });
    await turns();
    expect(world.payloads()).toEqual([{ ascOverflow: expect.objectContaining({ sizeInBytes: 100_002 }) as unknown }]);
    await outbox.stop();
  });
});

describe("misuse", () => {
  it("is rejected where it happens", async () => {
    const world = new OutboxWorld();
    const { outbox, table } = world.process();
    const add = (tx: unknown, queue: unknown = world.queue, payload: unknown = 1, options: unknown = {}) => (): void => outbox.add(tx as never, queue as never, payload, options as never);
    expect(add({ partitionKey: "p" })).toThrow(/tx must be/);
    let late: (() => void) | undefined;
    await runTransaction(table, "p", async (tx) => {
      expect(add(tx, {})).toThrow(TypeError);
      expect(add(tx, world.queue, () => 1)).toThrow(TypeError);
      expect(add(tx, world.queue, Promise.resolve(1))).toThrow(TypeError);
      expect(add(tx, world.queue, 1, { key: "k" })).toThrow(/unknown option "key"/);
      const text = "x".repeat(60_000);
      for (let i = 0; i < 7; i++) add(tx, world.queue, text)();
      expect(add(tx, world.queue, text)).toThrow(RangeError);
      late = add(tx);
      await Promise.resolve();
    });
    expect(late).toThrow(/the transaction is over/i);
    const another = new FakeTransactionTable(world.service, { tableName: "another" });
    await runTransaction(another, "p", (tx) => {
      expect(add(tx)).toThrow(/another table/);
    });
    await outbox.stop();
    expect(() => new Outbox(table, { queues: world.queue as never })).toThrow(TypeError);
    expect(() => new Outbox(table, { queues: [], relayAfterInMs: 1 })).toThrow(RangeError);
    expect(() => new Outbox({} as never, { queues: [] })).toThrow(TypeError);
    expect(new ConcurrentTable(table).outbox({ queues: [] })).toBeInstanceOf(Outbox);
  });
});

describe("the marker", () => {
  it("is stored before the commit is sent: without it, nothing is committed", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.service.each("upsertEntity", answer(403, "AuthorizationFailure"));
    expect(await rejection(order(process, world, "o1"))).toMatchObject({ statusCode: 403 });
    expect(world.service.count("submitTransaction")).toBe(0);
    world.service.heal();
    await order(process, world, "o1");
    await turns();
    expect(world.payloads()).toHaveLength(1);
    await process.outbox.stop();
  });

  it("is renewed for transactions in half of relayAfterInMs, and deleted when it is not used for that long", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    await order(process, world, "o1");
    await after(14_000);
    await order(process, world, "o2");
    expect(world.service.count("upsertEntity")).toBe(1);
    await after(2_000);
    await order(process, world, "o3");
    expect(world.service.count("upsertEntity")).toBe(2);
    expect(world.rows().markers).toBe(1);
    await after(60_000);
    expect(world.rows().markers).toBe(0);
    await order(process, world, "o4");
    await turns();
    expect(world.payloads()).toHaveLength(4);
    await process.outbox.stop();
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
  });

  it("is not deleted as long as a call may commit, a send is in flight, or an outcome is unknown", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    let end!: () => void;
    const running = runTransaction(process.table, "p", async (tx) => {
      tx.create({ rowKey: "o" });
      process.outbox.add(tx, world.queue, 1);
      await new Promise<void>((resolve) => (end = resolve));
    }, { timeoutInMs: 600_000 });
    await after(200_000);
    expect(world.rows().markers).toBe(1);
    world.queue.faults.always("send", "hang");
    end();
    await running;
    await after(20_000);
    expect(world.rows()).toEqual({ messages: 1, markers: 1 });
    const stopping = process.outbox.stop({ drainTimeoutInMs: 1_000 });
    await after(1_000);
    await stopping;
    expect(world.rows()).toEqual({ messages: 1, markers: 1 });
  });

  it("stays if the outcome of the commit is unknown", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.service.each("submitTransaction", loseAnswerForGood);
    world.service.each("getEntity", loseRequest);
    world.service.each("listEntities", loseRequest);
    const unknown = rejection(order(process, world, "o1"));
    await after(60_000);
    expect(await unknown).toMatchObject({ code: "COMMIT_UNKNOWN" });
    world.service.heal();
    await process.outbox.stop();
    expect([world.rows(), world.queue.messages]).toEqual([{ messages: 1, markers: 1 }, []]);
  });
});
