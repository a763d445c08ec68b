import { beforeEach, describe, expect, it, vi } from "vitest";

import { isLibraryRow, listEntities, runTransaction } from "../../src/index.js";
import { answer, gate, ghost, hang, loseAnswer, loseAnswerForGood } from "../fakes/faults.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";
import { after, OutboxWorld, stopOutboxes, turns } from "./fakes.js";
import type { FakeProcess } from "./fakes.js";

useFakeTimers();
stopOutboxes();
beforeEach(() => {
  // No delay after a conflict, and no jitter.
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  return () => void vi.restoreAllMocks();
});

const day = 86_400_000;

function order({ table, queue, outbox }: FakeProcess, rowKey: string, partitionKey = "p"): Promise<void> {
  return runTransaction(table, partitionKey, (tx) => {
    tx.create({ rowKey });
    outbox.add(tx, queue, { order: rowKey });
  });
}

/** A process that has committed orders, and crashed before it has sent anything. */
async function crashedAfterCommit(world: OutboxWorld, rowKeys: readonly string[] = ["o1"], partitionKey = "p"): Promise<void> {
  const process = world.process();
  world.queue.faults.always("send", "hang");
  await Promise.all(rowKeys.map((rowKey) => order(process, rowKey, partitionKey)));
  process.crash();
  world.queue.faults.always("send", "ok");
}

describe("the relay", () => {
  it("sends what a process left that has crashed after its commit, once it is old enough", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world);
    const relay = world.process();
    await relay.outbox.start();
    await after(28_000);
    expect(world.payloads()).toEqual([]);
    await after(20_000);
    expect(world.payloads()).toEqual([{ order: "o1" }]);
    expect(relay.relayed).toEqual([true]);
    expect(world.rows()).toEqual({ messages: 0, markers: 1 });
  });

  it("counts delays from the commit, and tells its time, also after a part of the messages was sent", async () => {
    const world = new OutboxWorld();
    const { table, outbox, queue, other } = world.process();
    world.queue.faults.always("send", "denied");
    world.other.faults.always("send", "denied");
    const committedAt = Date.now();
    await runTransaction(table, "p", (tx) => {
      outbox.add(tx, queue, "now");
      outbox.add(tx, other, "in an hour", { delayInMs: 3_600_000 });
    });
    await outbox.start();
    await after(20 * 60_000);
    world.queue.faults.always("send", "ok");
    await after(10 * 60_000);
    expect(world.payloads()).toEqual(["now"]);
    for await (const { addedOn } of outbox.list()) expect(Math.abs(addedOn.getTime() - committedAt)).toBeLessThan(1_000);
    world.other.faults.always("send", "ok");
    await after(10 * 60_000);
    expect(world.payloads(world.other)).toEqual(["in an hour"]);
    expect(Math.abs(world.other.messages[0]!.visibleAt - committedAt - 3_600_000)).toBeLessThan(5_000);
  });

  it("costs one request while nothing is left, and for what a crash left a claim, a query and a delete", async () => {
    const world = new OutboxWorld();
    const relay = world.process();
    await relay.outbox.flush();
    expect(world.service.operations).toEqual(["listEntities"]);
    await crashedAfterCommit(world, ["o1", "o2", "o3"]);
    await after(31_000);
    world.service.requests.length = 0;
    expect(await relay.outbox.flush()).toEqual({ sent: 3, failed: 0 });
    expect(world.service.operations).toEqual(["listEntities", "listEntities", "updateEntity", "submitTransaction"]);
    // Not again at once: the visits become rarer.
    world.service.requests.length = 0;
    expect(await relay.outbox.flush()).toEqual({ sent: 0, failed: 0 });
    expect(world.service.operations).toEqual(["listEntities"]);
  });

  it.each(["are killed", "lose the response to their claim"])("sends it as soon as after the crash of its process, however many relays %s in their visits", async (end) => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world);
    await after(31_000);
    for (let n = 0; n < 8; n++) {
      const visitor = world.process();
      if (end === "are killed") world.queue.faults.next("send", "mute");
      else world.service.next("updateEntity", loseAnswerForGood);
      void visitor.outbox.flush().catch(() => undefined);
      await turns();
      expect(world.service.count("updateEntity"), "claims").toBe(n + 1);
      visitor.crash();
      await after(33_000);
    }
    const relay = world.process();
    expect(await relay.outbox.flush()).toEqual({ sent: 1, failed: 0 });
    expect(world.payloads().at(-1)).toEqual({ order: "o1" });
  });

  it("does not touch what a process is about to send", async () => {
    const world = new OutboxWorld();
    const [slow, relay] = [world.process(), world.process()];
    // The marker is old when the message is committed.
    await runTransaction(slow.table, "p", async (tx) => {
      slow.outbox.add(tx, slow.queue, 1);
      await Promise.resolve();
    });
    await after(14_000);
    world.queue.faults.next("send", "hang");
    await order(slow, "o2");
    await after(20_000);
    world.service.requests.length = 0;
    expect(await relay.outbox.flush()).toEqual({ sent: 0, failed: 0 });
    expect(world.service.operations).toEqual(["listEntities", "listEntities", "updateEntity"]);
    expect(world.payloads()).toEqual([1]);
  });

  it("of two processes sends a message once: only one can claim the marker", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world);
    await after(31_000);
    const relays = [world.process(), world.process(), world.process()];
    const results = await Promise.all(relays.map(({ outbox }) => outbox.flush()));
    expect(results.map(({ sent }) => sent).sort()).toEqual([0, 0, 1]);
    expect(world.payloads()).toHaveLength(1);
  });

  it("that was suspended or killed during its visit is followed by another one, with the same key", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world, ["o1", "o2"]);
    await after(31_000);
    const [first, second] = [world.process(), world.process()];
    world.queue.faults.next("send", "ok", "mute");
    void first.outbox.flush();
    await turns();
    first.crash();
    expect(await second.outbox.flush()).toEqual({ sent: 0, failed: 0 });
    await after(31_000);
    expect(await second.outbox.flush()).toEqual({ sent: 2, failed: 0 });
    expect(world.rows()).toEqual({ messages: 0, markers: 1 });
    expect(new Set(world.keys()).size).toBe(2);
    expect(world.keys()).toHaveLength(4);
  });

  it("sends the message of a commit of unknown outcome if it arrives, whenever that is", async () => {
    const world = new OutboxWorld();
    const [process, relay] = [world.process(), world.process()];
    const late = ghost();
    world.service.next("submitTransaction", late.fault);
    world.service.each("getEntity", answer(503, "ServerBusy"));
    world.service.each("submitTransaction", answer(503, "ServerBusy"));
    const unknown = rejection(order(process, "o1"));
    await after(60_000);
    expect(await unknown).toMatchObject({ code: "COMMIT_UNKNOWN" });
    world.service.heal();
    await process.outbox.stop();
    await relay.outbox.start();
    await after(3_600_000);
    expect(world.payloads()).toEqual([]);
    late.arrive();
    await after(7_300_000);
    expect(world.payloads()).toEqual([{ order: "o1" }]);
  });

  it("deletes a marker without rows a day after its process has written it, by the clock of the service", async () => {
    const world = new OutboxWorld();
    const gone = world.process();
    await order(gone, "o1");
    await turns();
    gone.crash();
    const relay = world.process();
    await relay.outbox.start();
    await after(day - 3_600_000);
    expect(world.rows()).toEqual({ messages: 0, markers: 1 });
    const visits = world.service.count("updateEntity");
    expect(visits).toBeLessThan(35);
    await after(2 * 3_600_000);
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
    expect(world.payloads()).toHaveLength(1);
  });

  it("does not delete a marker that its process uses again", async () => {
    const world = new OutboxWorld();
    const [process, relay] = [world.process(), world.process({ pollIntervalInMs: 60_000 })];
    // Not deleted by its own process: something is left.
    world.queue.faults.next("send", "denied");
    await order(process, "o1");
    await relay.outbox.start();
    for (let hour = 0; hour < 26; hour++) {
      await after(3_600_000);
      await order(process, `later-${hour}`);
      await turns();
      expect(world.rows().markers).toBeGreaterThan(0);
    }
    expect(world.payloads()).toHaveLength(27);
  });

  it("does not delete a marker while it cannot know the time of the service", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world);
    world.service.tellsTime = false;
    const relay = world.process({ pollIntervalInMs: 60_000 });
    await relay.outbox.start();
    await after(3 * day);
    expect(world.payloads()).toHaveLength(1);
    expect(world.rows()).toEqual({ messages: 0, markers: 1 });
  });

  it("counts the delay of a message from its commit", async () => {
    const world = new OutboxWorld();
    const gone = world.process();
    world.queue.faults.next("send", "hang");
    await runTransaction(gone.table, "p", (tx) => gone.outbox.add(tx, gone.queue, 1, { delayInMs: 60_000 }));
    gone.crash();
    await after(40_000);
    const relay = world.process();
    await relay.outbox.flush();
    expect(world.queue.visible).toHaveLength(0);
    await after(21_000);
    expect(world.queue.visible).toHaveLength(1);
  });

  it("sends a large backlog page by page, and lets the other partitions have their turn", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world, Array.from({ length: 40 }, (_, i) => `o${i}`));
    await crashedAfterCommit(world, ["other"], "q");
    await after(31_000);
    const relay = world.process();
    expect(await relay.outbox.flush()).toEqual({ sent: 41, failed: 0 });
    expect(world.rows().messages).toBe(0);
  });
});

describe("a queue that fails", () => {
  it("is paused, and the others go on; the relay sends what is left when it works again", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.queue.exists = false;
    await process.outbox.start();
    for (let i = 0; i < 5; i++) {
      await runTransaction(process.table, "p", (tx) => {
        process.outbox.add(tx, process.queue, i);
        process.outbox.add(tx, process.other, i);
      });
      await turns();
    }
    expect(world.payloads(world.other)).toEqual([0, 1, 2, 3, 4]);
    // The first one has shown that the queue is missing.
    expect(world.queue.faults.count("send")).toBe(1);
    expect(process.errors).toHaveLength(1);
    expect(world.rows().messages).toBe(5);
    await after(600_000);
    // With growing pauses, up to a minute.
    expect(world.queue.faults.count("send")).toBeLessThan(15);
    world.queue.exists = true;
    await after(600_000);
    expect(new Set(world.payloads())).toEqual(new Set([0, 1, 2, 3, 4]));
    expect(world.payloads()).toHaveLength(5);
    // What was sent is not sent again.
    expect(world.payloads(world.other)).toHaveLength(5);
    expect(world.rows().messages).toBe(0);
  });

  it("that does not respond does not delay another one", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.queue.faults.always("send", "hang");
    for (let i = 0; i < 40; i++) await order(process, `o${i}`);
    await runTransaction(process.table, "p", (tx) => process.outbox.add(tx, process.other, "other"));
    await turns();
    expect(world.payloads(world.other)).toEqual(["other"]);
  });

  it("is one that the relay has no client for; a function finds it, but not the one of another account", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world);
    await after(31_000);
    const stranger = world.process({ queues: [world.other] });
    expect(await stranger.outbox.flush()).toEqual({ sent: 0, failed: 1 });
    expect(String(stranger.errors[0])).toMatch(/no client for the queue.*queues of the Outbox/);
    await after(61_000);
    const names: string[] = [];
    const elsewhere = Object.assign(new FakeQueue("orders"), { url: "https://another.queue.example/orders" });
    const wrong = world.process({ queues: () => elsewhere });
    expect(await wrong.outbox.flush()).toEqual({ sent: 0, failed: 1 });
    await after(181_000);
    const right = world.process({
      queues: (name) => {
        names.push(name);
        return world.queue;
      },
    });
    expect(await right.outbox.flush()).toEqual({ sent: 1, failed: 0 });
    expect(names).toEqual(["orders"]);
    expect(elsewhere.messages).toEqual([]);
  });

  it("is sent a message again whose response was lost, with the same key", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.queue.faults.next("send", "lost", "busy");
    await order(process, "o1");
    await after(5_000);
    expect(world.payloads()).toHaveLength(2);
    expect(new Set(world.keys()).size).toBe(1);
    expect(process.errors).toEqual([]);
    await process.outbox.stop();
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
  });
});

describe("requests to the table that fail", () => {
  it("do not keep a message from being sent, nor its row from being deleted", async () => {
    for (const fault of [loseAnswer, loseAnswerForGood, answer(503, "ServerBusy")]) {
      const world = new OutboxWorld();
      const process = world.process();
      world.service.next("upsertEntity", fault);
      world.service.next("deleteEntity", fault);
      await Promise.all([order(process, "o1"), after(1_000)]);
      await after(5_000);
      expect([world.payloads().length, world.rows().messages, process.errors]).toEqual([1, 0, []]);
      const stopping = process.outbox.stop();
      await after(5_000);
      await stopping;
      expect(world.rows()).toEqual({ messages: 0, markers: 0 });
    }
  });

  it("leave the row to the relay if it cannot be deleted: the message is sent again, with the same key", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.service.each("deleteEntity", answer(403, "AuthorizationPermissionMismatch"));
    await order(process, "o1");
    await turns();
    expect(process.errors).toHaveLength(1);
    world.service.heal();
    await after(31_000);
    await world.process().outbox.flush();
    expect([world.keys().length, new Set(world.keys()).size, world.rows().messages]).toEqual([2, 1, 0]);
  });

  it("end a pass with an event, and the next one follows later and later", async () => {
    const world = new OutboxWorld();
    const relay = world.process();
    await relay.outbox.start();
    world.service.each("listEntities", answer(403, "AuthorizationFailure"));
    await after(600_000);
    expect(relay.errors.length).toBeGreaterThan(5);
    expect(relay.errors.length).toBeLessThan(20);
    world.service.heal();
    await crashedAfterCommit(world);
    await after(180_000);
    expect(world.payloads()).toHaveLength(1);
  });

  it("are found at the start", async () => {
    const world = new OutboxWorld();
    const { outbox } = world.process();
    world.service.next("getEntity", answer(404, "TableNotFound"));
    expect(await rejection(outbox.start())).toMatchObject({ code: "TARGET_NOT_FOUND" });
    expect(outbox.isRunning).toBe(false);
    world.service.each("any", answer(404, "TableNotFound"));
    for (const call of [() => outbox.flush(), () => outbox.list().next()]) expect(await rejection(call())).toMatchObject({ code: "TARGET_NOT_FOUND" });
    world.service.heal();
    await outbox.start();
    expect(outbox.isRunning).toBe(true);
    await outbox.stop();
    expect(outbox.isRunning).toBe(false);
  });
});

describe("rows that another program has damaged or forged", () => {
  it("are reported once, and never stop the others", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world, ["o1", "o2", "o3"]);
    const rows = world.table.rowKeys("p").filter((key) => key.startsWith("~asc~outbox!"));
    const text = (value: string) => ({ type: "String", value });
    world.table.put({ outgoing0: text("{") }, "p", rows[0]);
    world.table.put({ outgoing0: text(JSON.stringify([{ queue: "account:orders", key: "k", text: "t", timing: { visibilityTimeout: "soon" } }])) }, "p", rows[1]);
    world.table.put({ partition: { type: "Int32", value: 1 } }, "~asc~outbox", "~asc~outmarker!x");
    world.table.put({ partition: text("'"), waitInMs: text("x"), idleInSeconds: text("y") }, "~asc~outbox", `~asc~outmarker!${crypto.randomUUID()}`);
    world.table.put({}, "~asc~outbox", "~asc~outmarker!");
    await after(31_000);
    const relay = world.process();
    await relay.outbox.start();
    await after(3_600_000);
    expect(world.payloads()).toHaveLength(1);
    expect(relay.errors.map((error) => (error as { code?: string }).code)).toEqual(Array(4).fill("SCHEMA"));
    const listed: unknown[] = [];
    for await (const message of relay.outbox.list()) listed.push(message);
    expect(listed).toEqual([]);
  });
});

describe("list", () => {
  it("has the messages of all processes that are not sent yet, and the entities of the table do not", async () => {
    const world = new OutboxWorld();
    await crashedAfterCommit(world, ["o1"]);
    await crashedAfterCommit(world, ["o2"], "q");
    const { outbox, table } = world.process();
    const listed: { queue: string; addedOn: Date }[] = [];
    for await (const message of outbox.list()) listed.push(message);
    expect(listed).toHaveLength(2);
    expect(listed[0]).toMatchObject({ queue: "account:orders", addedOn: new Date() });
    const entities: string[] = [];
    for await (const { rowKey } of listEntities(table)) entities.push(rowKey);
    expect(entities).toEqual(["o1", "o2"]);
    const all = [...world.service.resources.keys()].map((key) => ({ rowKey: (JSON.parse(key) as string[])[2]! }));
    expect(all.filter((row) => !isLibraryRow(row))).toHaveLength(2);
    expect(() => outbox.list({ abort: 1 } as never)).toThrow(TypeError);
    expect(await rejection(outbox.flush({ abort: 1 } as never))).toBeInstanceOf(TypeError);
  });
});

describe("stop", () => {
  it("waits for messages that are being sent, and leaves those that take too long to the relay", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.queue.faults.next("send", "hang");
    await order(process, "o1");
    const stopping = process.outbox.stop({ drainTimeoutInMs: 5_000 });
    let ended = false;
    void stopping.then(() => (ended = true));
    await after(4_900);
    expect(ended).toBe(false);
    await after(200);
    expect(ended).toBe(true);
    expect(world.rows()).toEqual({ messages: 1, markers: 1 });
    expect(process.errors).toEqual([]);
    await after(30_000);
    expect(await world.process().outbox.flush()).toEqual({ sent: 1, failed: 0 });
  });

  it("ends in its time although a table does not respond to deletes, and others wait for their turn", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.service.each("deleteEntity", hang);
    await order(process, "o1");
    await turns();
    await order(process, "o2");
    await after(100);
    expect(world.payloads()).toHaveLength(2);
    const stopping = process.outbox.stop({ drainTimeoutInMs: 5_000 });
    let ended = false;
    void stopping.then(() => (ended = true));
    await after(5_100);
    expect(ended).toBe(true);
    expect(world.rows()).toEqual({ messages: 2, markers: 1 });
    expect(process.errors).toEqual([]);
  });

  it("does not happen if a flush is aborted: what is being sent goes on", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    world.queue.faults.next("send", "hang");
    await order(process, "o1");
    const stop = new AbortController();
    const flushing = rejection(process.outbox.flush({ abortSignal: stop.signal }));
    await after(1_000);
    stop.abort(new Error("enough"));
    expect(await flushing).toMatchObject({ message: "enough" });
    // The first try gets no response within 30 seconds, and the second one succeeds.
    await after(35_000);
    expect([world.payloads(), world.rows().messages]).toEqual([[{ order: "o1" }], 0]);
  });

  it("deletes a marker whose write is still in flight", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    const slow = gate();
    world.service.next("upsertEntity", slow.fault);
    const failing = runTransaction(process.table, "p", (tx) => {
      process.outbox.add(tx, process.queue, 1);
      throw new Error("no");
    });
    expect(await rejection(failing)).toMatchObject({ message: "no" });
    const stopping = process.outbox.stop();
    await turns();
    slow.open();
    await after(100);
    await stopping;
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
  });

  it("is what run does when its signal aborts", async () => {
    const world = new OutboxWorld();
    const process = world.process();
    const stop = new AbortController();
    const running = process.outbox.run({ abortSignal: stop.signal });
    await turns();
    await order(process, "o1");
    stop.abort();
    await after(100);
    await running;
    expect(world.payloads()).toHaveLength(1);
    expect(world.rows()).toEqual({ messages: 0, markers: 0 });
  });
});
