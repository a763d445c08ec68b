import { expect, it } from "vitest";
import { countSends } from "../../src/core/request.js";
import type { Fate } from "./storage/network-conditions.js";
import { World } from "./storage/world.js";

/** One write on a network that treats every send alike, cut off after a minute. */
async function write(fate: Exclude<Fate, "ok"> | undefined): Promise<{ error: string | undefined; sends: number; stored: boolean; tookInMs: number }> {
  const world = new World(1);
  return world.time.run(async () => {
    world.networkConditions = { latency: { min: 10, max: 10 }, faults: fate ? { [fate]: 1 } : {} };
    const table = world.newProcess().table("t");
    const controller = new AbortController();
    const { sends } = countSends(controller.signal);
    setTimeout(() => controller.abort(), 60_000);
    const error = await table.upsertEntity({ partitionKey: "p", rowKey: "r", n: 1 }, "Merge", { abortSignal: controller.signal }).then(
      () => undefined,
      (error: unknown) => {
        const { statusCode, code, name } = error as { statusCode?: number; code?: string; name: string };
        return String(statusCode ?? (name === "AbortError" ? name : code));
      },
    );
    const tookInMs = world.time.now;
    await world.time.sleep(60_000);
    return { error, sends: sends(), stored: table.row("p", "r") !== undefined, tookInMs };
  });
}

it.each([
  [undefined, { error: undefined, sends: 1, stored: true, tookInMs: 10 }],
  // Four sends, and three waits in between.
  ["request lost", { error: "ECONNRESET", sends: 7, stored: false }],
  ["answer lost", { error: "ECONNRESET", sends: 7, stored: true }],
  ["busy", { error: "503", sends: 7, stored: false }],
  ["failed after commit", { error: "500", sends: 7, stored: true }],
  ["straggler", { error: "ECONNRESET", sends: 7, stored: true }],
  ["silence", { error: "AbortError", sends: 1, stored: false, tookInMs: 60_000 }],
  ["silence after commit", { error: "AbortError", sends: 1, stored: true, tookInMs: 60_000 }],
] as const)("a request on a network of nothing but %j", async (fate, expected) => {
  expect(await write(fate)).toMatchObject(expected);
});

it.each<[Exclude<Fate, "ok"> | undefined, boolean]>([
  [undefined, false],
  ["request lost", true],
  ["busy", true],
  ["failed after commit", true],
  ["silence after commit", true],
])("a write on a network of nothing but %j leaves its process in doubt: %s", async (fate, inDoubt) => {
  const world = new World(1);
  await world.time.run(async () => {
    world.networkConditions = { latency: { min: 10, max: 10 }, faults: fate ? { [fate]: 1 } : {} };
    const process = world.newProcess();
    const isInDoubt = process.watchWrites();
    expect(isInDoubt()).toBe(false);
    void process.table("t").upsertEntity({ partitionKey: "p", rowKey: "r", n: 1 }).catch(() => undefined);
    // In flight, and no response yet.
    expect(isInDoubt()).toBe(true);
    await world.time.sleep(60_000);
    expect(isInDoubt()).toBe(inDoubt);
    expect(process.watchWrites()()).toBe(false);
  });
});

it.each(["aborted", "sent by a process that is cut off"])("a write that is %s before its response arrives leaves its process in doubt", async (how) => {
  const world = new World(1);
  await world.time.run(async () => {
    const process = world.newProcess();
    const controller = new AbortController();
    const isInDoubt = process.watchWrites();
    const options = { abortSignal: controller.signal };
    void process.table("t").upsertEntity({ partitionKey: "p", rowKey: "r", n: 1 }, "Merge", options).catch(() => undefined);
    if (how === "aborted") controller.abort();
    else process.cutOff();
    await world.time.sleep(60_000);
    expect(isInDoubt()).toBe(true);
  });
});

it("a write that met a conflict stays in doubt until its own client has read: the read of another client belongs to another call", async () => {
  const world = new World(1);
  await world.time.run(async () => {
    const process = world.newProcess();
    const entity = { partitionKey: "p", rowKey: "r", n: 1 };
    const [writer, other] = [process.table("t"), process.table("t")];
    await writer.upsertEntity(entity);
    const isInDoubt = process.watchWrites();
    await expect(writer.createEntity(entity)).rejects.toHaveProperty("statusCode", 409);
    await other.getEntity("p", "r");
    expect(isInDoubt()).toBe(true);
    await writer.getEntity("p", "r");
    expect(isInDoubt()).toBe(false);
  });
});

it("refuses what is past the limit of a resource, and nothing else", async () => {
  const world = new World(1, { blob: Infinity, table: 100, queue: Infinity });
  await world.time.run(async () => {
    const process = world.newProcess();
    for (let i = 0; i < 50; i++) void process.table("t").upsertEntity({ partitionKey: "p", rowKey: "r" }).catch(() => undefined);
    for (let i = 0; i < 5; i++) void process.table("other").upsertEntity({ partitionKey: "p", rowKey: "r" });
    await world.time.sleep(60);
  });
  // A tenth of a second's worth at once, and one every 10 ms.
  expect(world.tables.counts.requests).toBe(55);
  expect(world.tables.counts.throttled).toBeGreaterThanOrEqual(34);
  expect(world.tables.counts.throttled).toBeLessThanOrEqual(40);
});
