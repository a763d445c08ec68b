import { describe, expect, it } from "vitest";
import { BlobLocks, Outbox, runTransaction } from "../../src/index.js";
import type { OutboxOptions } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import type { SimProcess } from "./storage/world.js";
import { World } from "./storage/world.js";

interface Instance {
  readonly process: SimProcess;
  readonly outbox: Outbox;
  readonly errors: unknown[];
  readonly relayed: string[];
}

const minute = 60_000;

/** A process that may relay: `locked` as one of those that take turns. */
function instance(world: World, locked: boolean, options: Partial<OutboxOptions> = {}): Instance {
  const process = world.newProcess();
  const table = process.table("orders");
  const given = { queues: [process.queue("invoices")], ...options };
  const outbox = locked ? new Outbox(table, new BlobLocks(process.container, { fair: true }), given) : new Outbox(table, given);
  const [errors, relayed]: [unknown[], string[]] = [[], []];
  outbox.on("error", (error) => errors.push(error)).on("sent", (detail) => detail.relayed && relayed.push(detail.idempotencyKey));
  return { process, outbox, errors, relayed };
}

async function started(world: World, count: number, locked: boolean): Promise<Instance[]> {
  const instances = Array.from({ length: count }, () => instance(world, locked));
  await Promise.all(instances.map(async ({ outbox }) => {
    await world.time.sleep(world.time.random() * 10_000);
    await outbox.start();
  }));
  await world.time.sleep(2 * minute);
  return instances;
}

/** A process that commits a message and dies before it sends it. */
async function leaveMessage(world: World, partition: string): Promise<void> {
  const { process, outbox } = instance(world, false);
  process.queues.cutOff();
  await runTransaction(process.table("orders"), partition, (tx) => {
    tx.create({ rowKey: "order" });
    outbox.add(tx, process.queue("invoices"), { order: partition }, { idempotencyKey: partition });
  });
  process.cutOff();
}

function keysIn(world: World): (string | undefined)[] {
  const { store } = world.newProcess().queue("invoices");
  return store.receive(1_000, 0).map(({ messageText }) => openEnvelope(messageText, "text").key);
}

const relayedBy = (instances: readonly Instance[], key: string): Instance | undefined => instances.find(({ relayed }) => relayed.includes(key));

async function untilRelayed(world: World, instances: readonly Instance[], key: string, limitInMs: number): Promise<number> {
  const since = world.time.now;
  while (!relayedBy(instances, key) && world.time.now - since < limitInMs) await world.time.sleep(500);
  return world.time.now - since;
}

async function stopAll(instances: readonly Instance[]): Promise<void> {
  await Promise.all(instances.map(({ outbox }) => outbox.stop({ drainTimeoutInMs: 1_000 })));
}

describe("fifty instances that relay", () => {
  it.each([
    // A poll of each; and for each marker that is due, all of them try to claim it.
    { locked: false, idle: [285, 310], left: [300, 400] },
    // 6 polls and 6 renewals of one of them, and a try of each of the others. One claims the markers.
    { locked: true, idle: [50, 70], left: [14, 25] },
  ])("with locks: $locked, send $idle requests a minute at rest, and $left to the table after four processes have left messages", async ({ locked, idle, left }) => {
    const world = new World(5);
    await world.time.run(async () => {
      const instances = await started(world, 50, locked);
      const requests = (): number => world.tables.counts.requests + world.blobs.counts.requests;
      const before = requests();
      await world.time.sleep(10 * minute);
      const perMinute = (requests() - before) / 10;
      expect(perMinute).toBeGreaterThan(idle[0]!);
      expect(perMinute).toBeLessThan(idle[1]!);

      for (const partition of ["a", "b", "c", "d"]) await leaveMessage(world, partition);
      const writes = world.tables.counts.requests;
      await world.time.sleep(2 * minute);
      const toTable = (world.tables.counts.requests - writes) / 2;
      expect(keysIn(world).sort()).toEqual(["a", "b", "c", "d"]);
      expect(toTable).toBeGreaterThan(left[0]!);
      expect(toTable).toBeLessThan(left[1]!);
      expect(instances.flatMap(({ errors }) => errors)).toEqual([]);
      await stopAll(instances);
    });
  });
});

describe("instances that take turns", () => {
  it("relay when the one whose turn it was has died: at most a lease, a try and a poll later", async () => {
    const world = new World(7);
    await world.time.run(async () => {
      const instances = await started(world, 5, true);
      await leaveMessage(world, "first");
      await untilRelayed(world, instances, "first", 5 * minute);
      const relay = relayedBy(instances, "first")!;
      relay.process.cutOff();
      await leaveMessage(world, "second");
      const others = instances.filter((other) => other !== relay);
      expect(await untilRelayed(world, others, "second", 5 * minute)).toBeLessThan(30_000 + 72_000 + 12_000);
      await stopAll(instances);
    });
  });

  it("relay when the one whose turn it was has stopped: with many of them, one tries soon", async () => {
    const world = new World(8);
    await world.time.run(async () => {
      const instances = await started(world, 20, true);
      await leaveMessage(world, "first");
      await untilRelayed(world, instances, "first", 5 * minute);
      const relay = relayedBy(instances, "first")!;
      await leaveMessage(world, "second");
      await relay.outbox.stop();
      // As old as it has to be, a try of one of nineteen instances, and its poll.
      expect(await untilRelayed(world, instances.filter((other) => other !== relay), "second", 5 * minute)).toBeLessThan(30_000 + 10_000 + 12_000);
      await stopAll(instances);
    });
  });

  it("give the turn to another one when they cannot send: it may have the client that they lack", async () => {
    const world = new World(9);
    await world.time.run(async () => {
      const poor = instance(world, true, { queues: [] });
      await poor.outbox.start();
      await world.time.sleep(minute);
      const rich = instance(world, true);
      await rich.outbox.start();
      await world.time.sleep(minute);
      await leaveMessage(world, "only");
      await untilRelayed(world, [rich], "only", 10 * minute);
      expect(relayedBy([rich], "only")).toBe(rich);
      await stopAll([poor, rich]);
    });
  });

  it("relay without turns while the locks cannot be reached, and say so", async () => {
    const world = new World(10);
    await world.time.run(async () => {
      const instances = await started(world, 3, true);
      for (const { process } of instances) process.blobs.cutOff();
      await leaveMessage(world, "only");
      await untilRelayed(world, instances, "only", 10 * minute);
      expect(keysIn(world)).toContain("only");
      expect(instances.some(({ errors }) => errors.length > 0)).toBe(true);
      await stopAll(instances);
    });
  });

  it("stop in time, although the lock cannot be released", async () => {
    const world = new World(11);
    await world.time.run(async () => {
      const [only] = await started(world, 1, true);
      only!.process.blobs.cutOff();
      const since = world.time.now;
      await only!.outbox.stop({ drainTimeoutInMs: 500 });
      expect(world.time.now - since).toBeLessThan(600);
    });
  });
});
