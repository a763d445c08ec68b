import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

import { isConcurrencyError, isLibraryRow, Once } from "../../src/index.js";
import { dropResponse, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker } from "../support/workers.js";
import type { CallerConfig, CallerReport } from "./workers/caller.js";

const caller = new URL("./workers/caller.ts", import.meta.url);
const keys = 90;

interface LoggedRun {
  readonly key: string;
  readonly run: string;
  readonly event: "start" | "end";
  readonly at: number;
}

describe("Once on Azurite", () => {
  it("runs a function once, replays its result, and purges it", async () => {
    const table = await freshTable();
    const once = new Once(table);
    const value = { id: 17, text: "ä€😀", list: [1, 2] };
    expect(await once.run("order/17?", () => value, { fingerprint: value })).toEqual({ value, replayed: false });
    expect(await new Once(table).run("order/17?", () => value, { fingerprint: value })).toEqual({ value, replayed: true });
    const rows: object[] = [];
    for await (const row of table.listEntities()) rows.push(row);
    expect(rows.every((row) => isLibraryRow(row))).toBe(true);
    expect(() => JSON.stringify(rows)).not.toThrow();
    expect(await once.purge()).toEqual({ deleted: 0, kept: 0 });
    expect(await once.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    expect(await once.get("order/17?")).toBeUndefined();
  });

  it("stores a large result in a blob although responses are lost, verifies it, and deletes it", async () => {
    const [table, container] = [await freshTable(), await freshContainer()];
    const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: isWrite, times: 1 }), respondWith(503, { when: isWrite, times: 1 })]);
    onTestFinished(() => proxy.stop());
    const behindProxy = containerClient(container.containerName, { through: proxy });
    const value = { text: "ä€😀".repeat(30_000) };
    expect(await new Once(table, { overflow: behindProxy }).run("k", () => value)).toEqual({ value, replayed: false });
    const once = new Once(table, { overflow: container });
    expect(await once.run("k", () => ({ text: "" }))).toEqual({ value, replayed: true });
    expect(await once.runTransaction("k", "p", () => value)).toEqual({ value, replayed: false });
    expect(await once.get("k", { partitionKey: "p" })).toEqual({ state: "succeeded", value });
    const names: string[] = [];
    for await (const { name } of container.listBlobsFlat()) names.push(name);
    expect(names).toHaveLength(2);
    // The blob is younger than an hour: it may belong to a call in progress.
    expect(await once.purge({ olderThanInMs: 0 })).toEqual({ deleted: 2, kept: 0 });
    expect(await once.forget("k")).toBe(false);
    expect(await once.run("k", () => value)).toMatchObject({ replayed: false });
    for (const name of names) await container.getBlockBlobClient(name).upload("1", 1);
    expect(isConcurrencyError(await once.run("k", () => value).catch((error: unknown) => error), "SCHEMA")).toBe(true);
    expect(await once.forget("k")).toBe(true);
  });

  it("takes the key of a process over that is killed, by the clock of the service", async () => {
    const table = await freshTable();
    const directory = mkdtempSync(join(tmpdir(), "once-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const log = join(directory, "log");
    const worker = startWorker(caller, { connectionString: connectionString(), table: table.tableName, keys: 1, claimDurationInMs: 3_000, skewInMs: 0, log } satisfies CallerConfig);
    await expect.poll(() => runsIn(log).length, { timeout: 20_000 }).toBeGreaterThan(0);
    await worker.stop(); // kill -9
    const { value, replayed } = await new Once(table, { claimDurationInMs: 3_000 }).run("key-0", ({ attempt }) => attempt);
    // It may have been faster than the kill.
    expect(replayed ? typeof value : value).toBe(replayed ? "string" : 2);
  }, 60_000);

  it("five processes with skewed clocks that are killed and suspended, and lose responses, get one result for each key", async () => {
    const table = await freshTable();
    const directory = mkdtempSync(join(tmpdir(), "once-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const log = join(directory, "log");
    const proxy = await startFaultProxy(azurite().tableUrl, [dropResponse({ when: isWrite, probability: 0.1 }), respondWith(503, { probability: 0.03 })]);
    onTestFinished(() => proxy.stop());
    const config: Omit<CallerConfig, "skewInMs"> = { connectionString: connectionString({ tableUrl: proxy.url }), table: table.tableName, keys, claimDurationInMs: 2_000, log };
    const reports: CallerReport[] = [];
    /** Each life but the last ends while the process runs the function of a key; in the last one it is suspended for longer than its claim. */
    const runProcess = async (kills: number, skewInMs: number): Promise<void> => {
      for (let life = 0; life <= kills; life++) {
        const worker = startWorker(caller, { ...config, skewInMs } satisfies CallerConfig, { timeoutInMs: 150_000 });
        let starts = 0;
        for (;;) {
          const report = await worker.receive<CallerReport>().catch(() => undefined);
          if (!report) break;
          if (report.value !== undefined) reports.push(report);
          else if (++starts === 3) {
            if (life < kills) void worker.stop(); // kill -9
            else {
              worker.signal("SIGSTOP");
              await pause(3_000);
              worker.signal("SIGCONT");
            }
          }
        }
        if (life === kills) await worker.result;
        else await worker.exited;
      }
    };
    await Promise.all([runProcess(2, 0), runProcess(2, 300_000), runProcess(1, -240_000), runProcess(1, 120_000), runProcess(0, -600_000)]);
    const results = new Map<string, Set<string>>();
    for (const { key, value } of reports) results.set(key, (results.get(key) ?? new Set()).add(value ?? ""));
    expect(results.size).toBe(2 * keys);
    expect([...results].filter(([, values]) => values.size !== 1)).toEqual([]);
    // Each transaction was committed once, and each saw all before it.
    const committed = [...results].filter(([key]) => key.startsWith("tx-")).flatMap(([, values]) => [...values].map(Number));
    expect(committed.sort((a, b) => a - b)).toEqual(Array.from({ length: keys }, (_, i) => i + 1));
    expect((await table.getEntity<{ n: number }>("bank", "counter")).n).toBe(keys);
    expect(overlapsIn(runsIn(log))).toEqual([]);
    const starts = runsIn(log).filter(({ event }) => event === "start").length;
    // Six were killed, and up to five suspended, while they ran it.
    expect(starts).toBeGreaterThanOrEqual(keys + 6);
    console.log(`${starts} starts, ${runsIn(log).filter(({ event }) => event === "end").length} runs for ${keys} keys, ${proxy.requests} requests, ${proxy.faultCount()} faults`);
  }, 240_000);
});

function runsIn(log: string): LoggedRun[] {
  try {
    return readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line) as LoggedRun);
  } catch {
    return [];
  }
}

/** Runs of one key that acted after another run of the key had begun that acted as well. */
function overlapsIn(runs: readonly LoggedRun[]): string[] {
  const spans = new Map<string, { key: string; start: number; end?: number }>();
  for (const { key, run, event, at } of runs) {
    if (event === "start") spans.set(run, { key, start: at });
    else spans.get(run)!.end = at;
  }
  const ended = [...spans.values()].filter((span): span is { key: string; start: number; end: number } => span.end !== undefined);
  return ended.flatMap((a) => ended.filter((b) => a !== b && a.key === b.key && b.start >= a.start && b.start < a.end).map((b) => `${a.key}: ${b.start - a.start} ms apart`));
}
