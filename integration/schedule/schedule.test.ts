import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

import { run } from "../../src/cli/run.js";
import { BlobLocks, isLibraryRow, Schedule } from "../../src/index.js";
import { dropResponse, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";
import { azurite, connectionString, freshContainer, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker } from "../support/workers.js";
import type { InstanceConfig } from "./workers/instance.js";

const instance = new URL("./workers/instance.ts", import.meta.url);
const everyInMs = 2_000;

interface LoggedRun {
  readonly job: string;
  readonly run: string;
  readonly due: number;
  readonly event: "start" | "end";
  readonly at: number;
}

describe("Schedule on Azurite", () => {
  it("runs a job, commits its effect, and is controlled by the command line", async () => {
    const table = await freshTable();
    const locks = new BlobLocks(await freshContainer());
    const schedule = new Schedule(table, locks, {
      billing: { cron: "0 3 * * *", timeZone: "Europe/Berlin", run: ({ commit, dueOn }) => commit("bills", [["create", { rowKey: dueOn.toISOString() }]]) },
      sweep: { everyInMs: 3_600_000, run: () => Promise.reject(new RangeError("no broom")) },
    }, { pollIntervalInMs: 200 }); // prettier-ignore
    onTestFinished(() => schedule.stop());
    schedule.on("error", () => undefined);
    await schedule.start();
    const terminal = (): FakeTerminal => new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: azurite().connectionString } });
    const cli = async (...args: string[]): Promise<unknown> => {
      const out = terminal();
      expect(await run(["--json", "schedule", ...args], out), out.stderr).toBe(0);
      return JSON.parse(out.stdout);
    };
    expect(await cli("trigger", table.tableName, "billing", "--key", "k1")).toMatchObject({ job: "billing", state: "pending", idempotencyKey: "k1" });
    await expect.poll(() => cli("trigger", table.tableName, "billing", "--key", "k1"), { timeout: 10_000 }).toMatchObject({ state: "succeeded" });
    const rows: object[] = [];
    for await (const row of table.listEntities()) rows.push(row);
    expect(rows.filter((row) => !isLibraryRow(row))).toHaveLength(1);
    expect(() => JSON.stringify(rows)).not.toThrow();
    await cli("pause", table.tableName, "sweep");
    await cli("trigger", table.tableName, "sweep");
    await expect.poll(() => cli("history", table.tableName, "sweep"), { timeout: 10_000 }).toMatchObject([{ state: "failed", error: "RangeError: no broom" }]);
    expect(await cli("list", table.tableName)).toMatchObject([
      { job: "billing", state: "idle", trigger: "cron 0 3 * * * Europe/Berlin", lastRun: { state: "succeeded" } },
      { job: "sweep", state: "paused", trigger: "every 3600000 ms", lastRun: { state: "failed" } },
    ]);
    expect(await schedule.status()).toMatchObject([{ name: "billing", paused: false }, { name: "sweep", paused: true, nextDueOn: undefined }]);
    await cli("resume", table.tableName, "sweep");
    expect(await schedule.status()).toMatchObject([{}, { paused: false, nextDueOn: expect.any(Date) as Date }]);
    const table2 = terminal();
    expect(await run(["schedule", "list", table.tableName], table2)).toBe(0);
    expect(table2.stdout).toMatch(/^JOB +TRIGGER +STATE +NEXT DUE/);
    expect(await run(["schedule", "pause", table.tableName, "nope"], terminal())).toBe(3);
  }, 60_000);

  it("five processes with skewed clocks that are killed and suspended, and lose responses, run every due time: commits once, onCrash: fail at most once", async () => {
    const table = await freshTable();
    const container = await freshContainer();
    const directory = mkdtempSync(join(tmpdir(), "schedule-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const log = join(directory, "log");
    const proxy = await startFaultProxy(azurite().tableUrl, [dropResponse({ when: isWrite, probability: 0.1 }), respondWith(503, { probability: 0.03 })]);
    onTestFinished(() => proxy.stop());
    const config = { table: table.tableName, container: container.containerName, everyInMs, log };
    /** Each life but the last ends while the process runs a job; in the last one it is suspended for longer than its lease. */
    const runProcess = async (kills: number, skewInMs: number): Promise<void> => {
      const ends = Date.now() + 60_000;
      for (let life = 0; life <= kills; life++) {
        const worker = startWorker(instance, { ...config, connectionString: connectionString({ tableUrl: proxy.url }), skewInMs, runForInMs: Math.max(1_000, ends - Date.now()) } satisfies InstanceConfig, { timeoutInMs: 150_000 });
        let starts = 0;
        for (;;) {
          const job = await worker.receive<string>().catch(() => undefined);
          if (job === undefined) break;
          if (++starts !== 4) continue;
          if (life < kills) void worker.stop(); // kill -9
          else {
            worker.signal("SIGSTOP");
            await pause(18_000);
            worker.signal("SIGCONT");
          }
        }
        if (life === kills) await worker.result;
        else await worker.exited;
      }
    };
    await Promise.all([runProcess(2, 0), runProcess(2, 300_000), runProcess(1, -240_000), runProcess(1, 120_000), runProcess(0, -600_000)]);
    // One without faults makes up for what is left.
    const until = Date.now();
    const last = startWorker(instance, { ...config, connectionString: connectionString(), skewInMs: 60_000, runForInMs: 25_000 } satisfies InstanceConfig, { timeoutInMs: 60_000 });
    await last.result;
    const runs = readFileSync(log, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line) as LoggedRun);
    const startsOf = (job: string): number[] => runs.filter((entry) => entry.job === job && entry.event === "start").map(({ due }) => due);
    const effects: number[] = [];
    for await (const row of table.listEntities<{ rowKey: string }>({ queryOptions: { filter: "PartitionKey eq 'effects'" } })) if (!isLibraryRow(row)) effects.push(Number(row.rowKey.split("-")[0]));
    const first = Math.min(...runs.map(({ due }) => due));
    const due = Array.from({ length: Math.floor((until - first) / everyInMs) + 1 }, (_, i) => first + i * everyInMs);
    expect(due.length).toBeGreaterThan(25);
    expect(due.filter((time) => !startsOf("retry").includes(time)), "due times of retry that did not run").toEqual([]);
    expect(due.filter((time) => !effects.includes(time)), "due times without their effect").toEqual([]);
    expect(effects.length, "effects").toBe(new Set(effects).size);
    expect(startsOf("fail").length, "starts of fail").toBe(new Set(startsOf("fail")).size);
    expect(overlapsIn(runs)).toEqual([]);
    // Not early: the clock of the service counts.
    expect(runs.filter((entry) => entry.at < entry.due - 1_000)).toEqual([]);
    console.log(`${due.length} due times, ${startsOf("retry").length} starts of retry, ${startsOf("fail").length} of fail, ${startsOf("commit").length} of commit with ${effects.length} effects, ${proxy.requests} requests, ${proxy.faultCount()} faults`);
  }, 240_000);
});

/** Runs of one job that acted after another run of the job had begun that acted as well. */
function overlapsIn(runs: readonly LoggedRun[]): string[] {
  const spans = new Map<string, { job: string; start: number; end?: number }>();
  for (const { job, run: id, event, at } of runs) {
    if (event === "start") spans.set(id, { job, start: at });
    else spans.get(id)!.end = at;
  }
  const ended = [...spans.values()].filter((span): span is { job: string; start: number; end: number } => span.end !== undefined);
  return ended.flatMap((a) => ended.filter((b) => a !== b && a.job === b.job && b.start > a.start && b.start < a.end).map((b) => `${a.job}: ${b.start - a.start} ms apart`));
}
