import { setTimeout as sleep } from "node:timers/promises";

import { replaceEndpoints, startAzurite, startFaultProxy, startFileShareServer } from "azure-storage-concurrency/testing";
import type { FaultProxy } from "azure-storage-concurrency/testing";

import type { Breakable } from "./broken-build.js";
import { libraryUrl } from "./broken-build.js";
import type { Disturbance } from "./disturbances.js";
import { planOf } from "./disturbances.js";
import type { Assignment, StorageNames } from "./messages.js";
import { OperationLog } from "./operation-log.js";
import { randomFrom } from "./random.js";
import type { Library, Scenario, Storage } from "./scenario.js";
import { scenarios } from "./scenarios/index.js";
import { openStorage } from "./storage.js";
import { WorkerPool } from "./worker-pool.js";

/** Options of {@link runChaos}. */
export interface ChaosOptions {
  readonly durationInMs: number;
  readonly seed: number;
  /** How many processes. */
  readonly workers: number;
  readonly broken?: Breakable | undefined;
  readonly progress: (line: string) => void;
}

/** What was done and survived. */
export interface ChaosResult {
  readonly scenarios: readonly { readonly name: string; readonly invariant: string; readonly done: number; readonly problems: readonly string[] }[];
  /** What went wrong with the run itself: workers that died by themselves, processes left over. */
  readonly problems: readonly string[];
  readonly survived: Readonly<Record<string, number>>;
  readonly errors: ReadonlyMap<string, number>;
}

const names: StorageNames = { container: "chaos", table: "chaos", claims: "claims", commits: "commits", orders: "orders", invoices: "invoices", groups: "groups", placed: "placed", share: "chaos" };

/**
 * On a machine that is busy with something else, a storm lasts until each scenario has done enough to prove something, but not longer than so
 * many times its duration.
 */
const maxExtension = 5;

/** All helpers at once, in several processes, while the network and the machine misbehave. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  await using azurite = await startAzurite();
  await using files = await startFileShareServer();
  const random = randomFrom(options.seed);
  const proxySeed = { seed: options.seed, logLimit: 0 };
  await using blobs = await startFaultProxy(azurite.blobUrl, [], proxySeed);
  await using tables = await startFaultProxy(azurite.tableUrl, [], proxySeed);
  await using queues = await startFaultProxy(azurite.queueUrl, [], proxySeed);
  await using shares = await startFaultProxy(files.url, [], proxySeed);
  const proxies = [blobs, tables, queues, shares];

  // The account of both emulators is the same.
  const directly = replaceEndpoints(azurite.connectionString, { fileUrl: files.url });
  const throughFaults = replaceEndpoints(azurite.connectionString, { blobUrl: blobs.url, tableUrl: tables.url, queueUrl: queues.url, fileUrl: shares.url });
  const storage = openStorage(directly, names);
  const library = await libraryUrl(options.broken);
  await prepare(storage, (await import(library)) as Library);

  const operationLog = new OperationLog();
  const assign = (worker: string): Assignment => ({ worker, seed: options.seed, library, storage: names, connectionString: throughFaults });
  const pool = new WorkerPool(options.workers, operationLog, assign);
  let notDrained: readonly string[] = [];
  const counts = { kills: 0, stops: 0, faints: 0, "network changes": 0 };
  try {
    await disturb(planOf(random, options.durationInMs * maxExtension, options.workers, proxies.length), pool, proxies, counts, operationLog, options);
    for (const proxy of proxies) proxy.setRules([]);
    options.progress("the storm is over: letting everybody finish");
    pool.order("finish");
    await pool.awake();
    notDrained = await drained(storage, 180_000);
    pool.order("stop");
    counts.faints = pool.faints;
    await pool.ended(120_000);
  } finally {
    pool.killAll();
  }

  const results = [];
  for (const scenario of scenarios) {
    const { name, invariant } = scenario;
    results.push({ name, invariant, done: doneIn(scenario, operationLog), problems: await scenario.check(storage, operationLog) });
  }
  const left = pool.leftover().map((pid) => `process ${pid} is still there`);
  return { scenarios: results, problems: [...pool.deaths, ...left, ...notDrained], survived: { ...counts, ...faultsOf(proxies) }, errors: operationLog.errors };
}

function doneIn(scenario: Scenario, operationLog: OperationLog): number {
  return scenario.done?.(operationLog) ?? operationLog.doneIn(scenario.name);
}

async function prepare(storage: Storage, library: Library): Promise<void> {
  await Promise.all([storage.container.create(), storage.table.createTable(), ...[storage.claims, storage.commits, storage.orders, storage.invoices, storage.groups, storage.placed].map((queue) => queue.create()), storage.share.create()]);
  for (const scenario of scenarios) await scenario.prepare?.(storage, library);
}

/** Carries the plan out, and reports every few seconds. */
async function disturb(
  plan: readonly Disturbance[],
  pool: WorkerPool,
  proxies: readonly FaultProxy[],
  counts: { kills: number; stops: number; "network changes": number },
  operationLog: OperationLog,
  { durationInMs, progress }: ChaosOptions,
): Promise<void> {
  const started = performance.now();
  const report = setInterval(() => {
    const done = scenarios.map((scenario) => `${scenario.name} ${doneIn(scenario, operationLog)}`).join(", ");
    progress(`${Math.round((performance.now() - started) / 1000)} s: ${counts.kills} killed, ${counts.stops} stopped; ${done}`);
  }, 5_000);
  try {
    for (const event of plan) {
      if (event.at >= durationInMs && isEnough(operationLog)) break;
      await sleep(Math.max(0, started + event.at - performance.now()));
      switch (event.kind) {
        case "kill":
          await pool.kill(event.place);
          counts.kills++;
          break;
        case "stop": {
          const { place } = event;
          // Somebody has to be awake to take over.
          if (pool.isStopped(place) || [...Array(pool.size).keys()].filter((other) => pool.isStopped(other)).length >= pool.size - 1) break;
          pool.stopFor(place, event.forInMs);
          counts.stops++;
          break;
        }
        case "network":
          proxies[event.service]?.setRules(event.conditions.rules);
          counts["network changes"]++;
      }
    }
    await sleep(Math.max(0, started + durationInMs - performance.now()));
  } finally {
    clearInterval(report);
  }
}

function isEnough(operationLog: OperationLog): boolean {
  return scenarios.every((scenario) => doneIn(scenario, operationLog) >= (scenario.enough ?? 2));
}

/** Until no message is left, for a few polls in a row: it may be invisible for a moment. Returns where some are left. */
async function drained(storage: Storage, limitInMs: number): Promise<readonly string[]> {
  const end = performance.now() + limitInMs;
  let left: readonly string[] = [];
  for (let quiet = 0; quiet < 4 && performance.now() < end; ) {
    await sleep(500);
    const all = await Promise.all(scenarios.map(async (scenario) => ((await scenario.isDrained?.(storage)) ?? true ? [] : [scenario.name])));
    left = all.flat();
    quiet = left.length === 0 ? quiet + 1 : 0;
  }
  return left.map((name) => `${name}: not all messages were handled ${limitInMs / 1000} s after the storm`);
}

function faultsOf(proxies: readonly FaultProxy[]): Record<string, number> {
  const kinds = { "lost answers": ["drop-response"], "refused connections": ["drop-request"], "errors 5xx": ["status-503", "status-500"], delays: ["delay"], hangs: ["hang"] };
  const sum = (rules: readonly string[]): number => proxies.reduce((n, proxy) => n + rules.reduce((m, rule) => m + proxy.faultCount(rule), 0), 0);
  return { requests: proxies.reduce((n, proxy) => n + proxy.requests, 0), ...Object.fromEntries(Object.entries(kinds).map(([kind, rules]) => [kind, sum(rules)])) };
}
