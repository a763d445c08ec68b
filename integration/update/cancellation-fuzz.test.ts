import { afterAll, beforeAll, expect, it } from "vitest";

import { delay, dropRequest, dropResponse, type FaultProxy, hang, isRead, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { type Call, type Clients, drawCall, type Kind, makeCall } from "../../test/update/cancellation/calls.js";
import { describe, expectTimes } from "../../test/update/cancellation/examine.js";
import { countingController } from "../../test/support/counting-signal.js";
import { type Random, randomFrom } from "../chaos/random.js";
import { azurite, connectionString, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";
import { fastContainer, fastTable } from "../support/fast-clients.js";
import { pause } from "../support/pause.js";

/*
 * The same calls as in `test/update/cancellation-fuzz.test.ts`, with the SDKs and a real network. `CANCELLATION_SEED` repeats the
 * calls and the faults; the interleaving is the machine's.
 */
const seed = Number(process.env["CANCELLATION_SEED"] ?? 1);
const rounds = Number(process.env["CANCELLATION_ROUNDS"] ?? 5);

/** A late request arrives after this at the latest. */
const maxDelayInMs = 500;

const rules = [
  delay({ minInMs: 1, maxInMs: 40 }, { probability: 0.3 }),
  delay({ minInMs: 1, maxInMs: 40 }, { probability: 0.2, at: "response" as const, name: "late response" }),
  delay({ minInMs: 100, maxInMs: maxDelayInMs }, { probability: 0.08, name: "very late request" }),
  hang({ probability: 0.01 }),
  hang({ probability: 0.01, at: "response" as const, name: "no response" }),
  dropRequest({ probability: 0.05 }),
  respondWith(503, { probability: 0.05 }),
  respondWith(500, { when: isWrite, probability: 0.05, at: "response" as const, name: "500 after the commit" }),
  dropResponse({ when: isWrite, probability: 0.12 }),
  dropResponse({ when: isRead, probability: 0.05, name: "read lost" }),
];

let blobs: FaultProxy;
let tables: FaultProxy;

beforeAll(async () => {
  const { blobUrl, tableUrl } = azurite();
  blobs = await startFaultProxy(blobUrl, [], { seed, logLimit: 0 });
  tables = await startFaultProxy(tableUrl, [], { seed, logLimit: 0 });
});

afterAll(() => Promise.all([blobs.stop(), tables.stop()]));

/** What is stored of one round, read without the proxies. */
interface Scene {
  readonly container: string;
  readonly table: string;
  readonly clientsFor: (call: Call) => Promise<Clients>;
}

it(`calls that are aborted, time out, throw and hang are told nothing that contradicts what is stored (seed ${seed})`, { timeout: 30_000 + rounds * 15_000 }, async () => {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): unknown => unhandled.push(reason);
  process.on("unhandledRejection", onUnhandled);
  const problems: string[] = [];
  const outcomes = new Map<string, number>();
  const timersBefore = activeTimers();
  for (let round = 0; round < rounds; round++) {
    const { calls, listeners, found } = await runRound(randomFrom(seed * 1_000 + round));
    problems.push(...found.map((problem) => `round ${round}: ${problem}`));
    if (listeners > 0) problems.push(`round ${round}: ${listeners} listeners are left on the signals of the callers`);
    for (const { outcome = "none" } of calls) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }
  await expect.poll(activeTimers, { timeout: 10_000 }).toBeLessThanOrEqual(timersBefore);
  process.off("unhandledRejection", onUnhandled);
  expect(problems).toEqual([]);
  expect(unhandled).toEqual([]);
  for (const outcome of ["resolved", "nothing written", "unknown"]) expect(outcomes.get(outcome) ?? 0, outcome).toBeGreaterThan(rounds);
});

/** Timers that keep the process alive: those of the library, and none of the proxies. */
function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;
}

async function runRound(random: Random): Promise<{ calls: readonly Call[]; listeners: number; found: string[] }> {
  const scene = await prepare();
  const kinds: Kind[] = ["optimisticUpdate", "leasedUpdate", "update entity", "runTransaction", "appendExactlyOnce", "overwrite", "createIfNotExists", "deleteIfUnchanged"];
  const calls = kinds.flatMap((kind) => Array.from({ length: 5 }, (_, i) => shortened(drawCall(random, `${kind.replace(" ", "")}${i}`, kind))));
  const signals: ReturnType<typeof countingController>[] = [];
  const clients = await Promise.all(calls.map((call) => scene.clientsFor(call)));
  blobs.setRules(rules);
  tables.setRules(rules);
  await Promise.all(
    calls.map(async (call, i) => {
      const own = random.fork(call.token);
      const stop = countingController();
      signals.push(stop);
      await pause(own.between(0, 300));
      const leave = own.next() < 0.3 ? setTimeout(() => stop.abort(new Error("the caller left")), own.pick([own.between(0, 40), own.between(0, 400)])) : undefined;
      await makeCall(call, clients[i]!, own, stop.signal);
      clearTimeout(leave);
    }),
  );
  blobs.setRules([]);
  tables.setRules([]);
  // Requests that were delayed arrive.
  await pause(maxDelayInMs + 200);
  return { calls, listeners: signals.reduce((sum, signal) => sum + signal.listeners(), 0), found: await examine(scene, calls) };
}

/** In real time, no caller waits for long. */
function shortened(call: Call): Call {
  return { ...call, timeoutInMs: Math.min(call.timeoutInMs, 4_000) };
}

async function prepare(): Promise<Scene> {
  const { containerName: container } = await freshContainer();
  const { tableName: table } = await freshTable();
  const direct = containerClient(container);
  const create = async (name: string, ...tokens: string[]): Promise<string> => {
    const text = JSON.stringify({ tokens });
    return (await direct.getBlockBlobClient(name).upload(text, text.length)).etag!;
  };
  await Promise.all([create("list"), create("mixed"), direct.getAppendBlobClient("log").create()]);
  for (const rowKey of ["a", "b"]) await tableClient(table).createEntity({ partitionKey: "p", rowKey, tokens: "" });
  const through = connectionString({ blobUrl: blobs.url, tableUrl: tables.url });
  // Two processes, as far as the library can tell: nothing is shared between clients with pipelines of their own.
  const processes = [0, 1].map(() => ({ blobs: fastContainer(through, container), table: fastTable(through, table) }));
  let next = 0;
  return {
    container,
    table,
    clientsFor: async (call) => {
      const client = processes[next++ % 2]!;
      const own = blobOf(call);
      const etag = call.kind === "overwrite" || call.kind === "deleteIfUnchanged" ? await create(own, "before") : undefined;
      const updates = call.kind === "optimisticUpdate" || call.kind === "leasedUpdate";
      return {
        list: client.blobs.getBlockBlobClient("list"),
        mixed: client.blobs.getBlockBlobClient(updates ? "mixed" : own),
        table: client.table,
        log: client.blobs.getAppendBlobClient("log"),
        currentETag: () => etag,
      };
    },
  };
}

/** Creates compete for one blob. Of overwrites and deletes each has a blob of its own: what is stored there is about this call. */
function blobOf(call: Call): string {
  return call.kind === "createIfNotExists" ? "created" : `own-${call.token}`;
}

async function examine({ container, table }: Scene, calls: readonly Call[]): Promise<string[]> {
  const direct = containerClient(container);
  const read = async (name: string): Promise<string[] | undefined> => {
    const blob = direct.getBlockBlobClient(name);
    return (await blob.exists()) ? (JSON.parse((await blob.downloadToBuffer()).toString()) as { tokens: string[] }).tokens : undefined;
  };
  const stored = { list: (await read("list")) ?? [], mixed: (await read("mixed")) ?? [], created: (await read("created")) ?? [] };
  const log = (await direct.getAppendBlobClient("log").downloadToBuffer()).toString().split("\n");
  const rows = await Promise.all(["a", "b"].map(async (row) => (await tableClient(table).getEntity<{ tokens: string }>("p", row)).tokens.split(" ")));
  const times = (tokens: readonly string[], { token }: Call): number => tokens.filter((other) => other === token).length;
  const found: string[] = [];
  for (const call of calls) {
    switch (call.kind) {
      case "optimisticUpdate":
      case "leasedUpdate":
        found.push(...expectTimes(call, times(stored[call.place], call)));
        break;
      case "update entity":
        found.push(...expectTimes(call, times(rows[0]!, call)));
        break;
      case "runTransaction":
        for (const row of rows) found.push(...expectTimes(call, times(row, call)));
        break;
      case "appendExactlyOnce":
        found.push(...expectTimes(call, times(log, call)));
        break;
      case "createIfNotExists":
        found.push(...expectTimes(call, times(stored.created, call)));
        break;
      case "overwrite":
        found.push(...expectTimes(call, times((await read(blobOf(call))) ?? [], call)));
        break;
      case "deleteIfUnchanged": {
        const exists = (await read(blobOf(call))) !== undefined;
        if (call.outcome === (exists ? "resolved" : "nothing written") || call.outcome === "defect") found.push(`${describe(call)}, but it ${exists ? "exists" : "is gone"}`);
      }
    }
  }
  return found;
}
