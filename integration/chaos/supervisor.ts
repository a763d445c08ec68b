import { setTimeout as sleep } from "node:timers/promises";

import { replaceEndpoints, startAzurite, startFaultProxy, startFileShareServer } from "azure-storage-concurrency/testing";
import type { FaultProxy } from "azure-storage-concurrency/testing";

import { startCopyingProxy } from "../support/copying-proxy.js";
import type { CopyingProxy } from "../support/copying-proxy.js";
import type { Breakable } from "./broken-build.js";
import { breakable, libraryUrl } from "./broken-build.js";
import type { Disturbance } from "./disturbances.js";
import { planOf } from "./disturbances.js";
import { Holds } from "./holds.js";
import { Liveness } from "./liveness.js";
import type { Assignment, StorageNames } from "./messages.js";
import { deliveryIn } from "./network-conditions.js";
import { OperationLog } from "./operation-log.js";
import { randomFrom } from "./random.js";
import type { Library, Scenario, Storage } from "./scenario.js";
import { openStorage } from "./storage.js";
import { beatInMs } from "./task-place.js";
import { WorkerPool } from "./worker-pool.js";

/** Options of {@link runChaos}. */
export interface ChaosOptions {
  readonly durationInMs: number;
  readonly seed: number;
  /** How many processes. */
  readonly workers: number;
  readonly scenarios: readonly Scenario[];
  /** The guarantees that are removed from the library. */
  readonly broken: readonly Breakable[];
  readonly progress: (line: string) => void;
}

/** What was done and survived. */
export interface ChaosResult {
  readonly scenarios: readonly ScenarioResult[];
  /** What went wrong with the run itself: workers that died by themselves, processes left over, stalls, errors that no scenario expects. */
  readonly problems: readonly string[];
  readonly survived: Readonly<Record<string, number>>;
  readonly errors: ReadonlyMap<string, number>;
}

interface ScenarioResult {
  readonly name: string;
  readonly invariant: string;
  readonly done: number;
  readonly takeovers: number;
  /** The longest time that one of its lanes stood still. */
  readonly longestWaitInMs: number;
  readonly problems: readonly string[];
}

const names: StorageNames = {
  container: "chaos", leased: "chaos-leased", table: "chaos", claims: "claims", commits: "commits", orders: "orders", invoices: "invoices", groups: "groups", placed: "placed", share: "chaos",
}; // prettier-ignore

/**
 * The duration of a storm is measured by the clock of the workers, which is slow on a machine that is busy with something else: a plan that went
 * on by the wall clock would kill processes that have not even started. The storm lasts until each scenario has done enough to prove something,
 * but not longer than so many times its duration.
 */
const maxExtension = 5;

/** So long after the storm, the last request that it held up has arrived: the checks would see a part of it otherwise. */
const latestRequestInMs = 15_000;

/** All leases of the run. */
const leaseInMs = 15_000;

/** All helpers at once, in several processes, while the network and the machine misbehave. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { scenarios } = options;
  await using azurite = await startAzurite();
  await using files = await startFileShareServer();
  const random = randomFrom(options.seed);
  const storm = new AbortController();
  // Below the fault proxies, so that the SDKs see one request and one response.
  const deliver = (service: string): (() => ReturnType<typeof deliveryIn>) => {
    const delivery = random.fork(`deliveries ${service}`);
    return () => (storm.signal.aborted ? "once" : deliveryIn(delivery));
  };
  await using blobNetwork = await startCopyingProxy(azurite.blobUrl, deliver("blob"));
  await using tableNetwork = await startCopyingProxy(azurite.tableUrl, deliver("table"));
  await using queueNetwork = await startCopyingProxy(azurite.queueUrl, deliver("queue"));
  await using shareNetwork = await startCopyingProxy(files.url, deliver("file"));
  const networks = [blobNetwork, tableNetwork, queueNetwork, shareNetwork];
  const faultsIn = (service: number): { seed: number; logLimit: number } => ({ seed: options.seed * 4 + service, logLimit: 0 });
  await using blobs = await startFaultProxy(blobNetwork.url, [], faultsIn(0));
  await using tables = await startFaultProxy(tableNetwork.url, [], faultsIn(1));
  await using queues = await startFaultProxy(queueNetwork.url, [], faultsIn(2));
  await using shares = await startFaultProxy(shareNetwork.url, [], faultsIn(3));
  const proxies = [blobs, tables, queues, shares];

  // The account of both emulators is the same.
  const directly = replaceEndpoints(azurite.connectionString, { fileUrl: files.url });
  const throughFaults = replaceEndpoints(azurite.connectionString, { blobUrl: blobs.url, tableUrl: tables.url, queueUrl: queues.url, fileUrl: shares.url });
  const storage = openStorage(directly, names);
  const library = await libraryUrl(options.broken);
  await prepare(scenarios, storage, (await import(library)) as Library);

  const watched = new Watched(scenarios);
  const clocks = random.fork("clocks");
  const assign = (worker: string): Assignment => ({
    worker, seed: options.seed, library, storage: names, connectionString: throughFaults, directly,
    scenarios: scenarios.map(({ name }) => name),
    clockOffsetInMs: clocks.between(-300_000, 300_000),
  }); // prettier-ignore
  const pool = new WorkerPool(options.workers, watched, assign);
  watched.pool = pool;
  let notDrained: readonly string[] = [];
  const counts = { kills: 0, stops: 0, faints: 0, "clock steps": 0, "network changes": 0 };
  try {
    const noticing = options.broken.length > 0 ? watched.noticing(storage, options.broken.map((guarantee) => breakable[guarantee].scenarios)) : undefined;
    await disturb(planOf(random, options.durationInMs * maxExtension, options.workers, proxies.length), pool, proxies, counts, watched, options);
    noticing?.[Symbol.dispose]();
    for (const proxy of proxies) proxy.setRules([]);
    storm.abort();
    const stormEnded = performance.now();
    watched.stormIsOver = true;
    options.progress("the storm is over: letting everybody finish");
    pool.order("calm");
    await pool.awake();
    await pool.recovered();
    notDrained = await drained(scenarios, storage, watched.operationLog, pool, options.broken.length > 0 ? 40_000 : 180_000);
    pool.order("stop");
    counts.faints = pool.faints;
    await pool.ended(120_000);
    await sleep(Math.max(0, stormEnded + latestRequestInMs - performance.now()));
  } finally {
    pool.killAll();
  }

  const { operationLog } = watched;
  const results: ScenarioResult[] = [];
  for (const scenario of scenarios) {
    const { name, invariant } = scenario;
    results.push({ name, invariant, done: doneIn(scenario, operationLog), takeovers: watched.holds.takeovers(name), longestWaitInMs: watched.longestWaitIn(name), problems: await scenario.check(storage, operationLog) });
  }
  const left = pool.leftover().map((pid) => `process ${pid} is still there`);
  const problems = [...pool.deaths, ...left, ...notDrained, ...watched.problems(), ...operationLog.problems()];
  return { scenarios: results, problems, survived: { ...counts, ...faultsOf(proxies, networks) }, errors: operationLog.errors };
}

/** Everything that is known of the run from what its workers tell. */
class Watched {
  readonly operationLog = new OperationLog();
  readonly holds = new Holds();
  readonly #scenarios: readonly Scenario[];
  readonly #liveness: Liveness;
  #lastBeat: number | undefined;
  stormIsOver = false;
  /** All that is broken on purpose has been noticed. */
  isNoticed = false;
  pool: WorkerPool | undefined;

  constructor(scenarios: readonly Scenario[]) {
    this.#scenarios = scenarios;
    this.#liveness = new Liveness(scenarios.flatMap(({ name, lanes = ["operations"] }) => lanes.map((lane) => ({ scenario: name, lane }))), 2 * leaseInMs);
  }

  /** In the time of the workers. */
  get elapsedInMs(): number {
    return this.#liveness.elapsedInMs;
  }

  /** As long as one process runs, time passes, but never faster than the beats of those that are awake arrive on average. */
  beat(): void {
    const now = performance.now();
    const passed = Math.min(beatInMs / Math.max(1, this.pool?.awakeCount ?? 1), now - (this.#lastBeat ?? now));
    this.#lastBeat = now;
    if (!this.stormIsOver) this.#liveness.advance(passed, (scenario) => this.operationLog.waitingIn(scenario, (task) => this.pool?.isAlive(task) ?? true));
  }

  report(report: Parameters<ConstructorParameters<typeof WorkerPool>[1]["report"]>[0], worker: string): void {
    this.operationLog.record(report);
    if (report.kind === "done" || report.kind === "progress") this.#liveness.progress(report.scenario, report.lane);
    if (report.kind === "hold") {
      if (report.held) this.holds.begin(report.scenario, report.resource, worker, report.task);
      else this.holds.end(report.scenario, report.resource, report.task);
    }
  }

  lost(worker: string, forInMs: number): void {
    if (forInMs < leaseInMs) return;
    for (const scenario of this.holds.orphan(worker, this.#liveness.elapsedInMs)) this.#liveness.excuse(scenario);
  }

  longestWaitIn(scenario: string): number {
    return Math.max(0, ...[...this.#liveness.longest].flatMap(([lane, ms]) => (lane.startsWith(`${scenario}/`) ? [ms] : [])));
  }

  /**
   * Looks every few seconds whether all of the broken guarantees, each with these scenarios, have been noticed: then there is nothing left to find
   * out. During the storm a check may also see what is about to happen: only the check at the end counts.
   */
  noticing(storage: Storage, guarantees: readonly (readonly string[])[]): Disposable {
    const seen = new Map<string, number>();
    const look = async (): Promise<void> => {
      const told = [...this.#liveness.stalls, ...this.operationLog.problems()];
      for (const scenario of this.#scenarios) {
        const { name, enough = 5 } = scenario;
        const found = doneIn(scenario, this.operationLog) < enough ? [] : await scenario.check(storage, this.operationLog).catch(() => []);
        const isWrong = found.length > 0 || told.some((problem) => problem.startsWith(`${name}: `));
        seen.set(name, isWrong ? (seen.get(name) ?? 0) + 1 : 0);
      }
      this.isNoticed = guarantees.every((names) => names.some((name) => (seen.get(name) ?? 0) >= 3));
    };
    let looking = Promise.resolve();
    const timer = setInterval(() => {
      looking = looking.then(look);
    }, 3_000);
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  problems(): string[] {
    // What was orphaned shortly before the end need not have been taken over.
    const early = this.#liveness.elapsedInMs - 2 * leaseInMs;
    const never = this.#scenarios.filter(({ name, takesOver }) => takesOver && this.holds.orphans(name, early) > 0 && this.holds.takeovers(name) === 0);
    return [...this.#liveness.stalls, ...never.map(({ name }) => `${name}: ${this.holds.orphans(name, early)} holders were killed or suspended, and none was taken over`)];
  }
}

function doneIn(scenario: Scenario, operationLog: OperationLog): number {
  return scenario.done?.(operationLog) ?? operationLog.doneIn(scenario.name);
}

async function prepare(scenarios: readonly Scenario[], storage: Storage, library: Library): Promise<void> {
  const queues = [storage.claims, storage.commits, storage.orders, storage.invoices, storage.groups, storage.placed];
  await Promise.all([storage.container.create(), storage.leased.create(), storage.table.createTable(), ...queues.map((queue) => queue.create()), storage.share.create()]);
  for (const scenario of scenarios) await scenario.prepare?.(storage, library);
}

/** Carries the plan out, by the clock of the workers, and reports every few seconds. */
async function disturb(
  plan: readonly Disturbance[],
  pool: WorkerPool,
  proxies: readonly FaultProxy[],
  counts: { kills: number; stops: number; "clock steps": number; "network changes": number },
  watched: Watched,
  { durationInMs, scenarios, progress }: ChaosOptions,
): Promise<void> {
  const { operationLog } = watched;
  const started = performance.now();
  const isOver = (): boolean => performance.now() - started > durationInMs * maxExtension || watched.isNoticed;
  const until = async (at: number): Promise<void> => {
    while (watched.elapsedInMs < at && !isOver()) await sleep(20);
  };
  const report = setInterval(() => {
    const done = scenarios.map((scenario) => `${scenario.name} ${doneIn(scenario, operationLog)}`).join(", ");
    progress(`${Math.round(watched.elapsedInMs / 1000)} s (${Math.round((performance.now() - started) / 1000)} s): ${counts.kills} killed, ${counts.stops} stopped; ${done}`);
  }, 5_000);
  try {
    for (const event of plan) {
      if ((event.at >= durationInMs && isEnough(scenarios, operationLog)) || isOver()) break;
      await until(event.at);
      switch (event.kind) {
        case "kill":
          await pool.kill(event.place);
          counts.kills++;
          break;
        case "stop": {
          const { place } = event;
          // Somebody has to be awake to take over.
          if (pool.isStopped(place) || pool.awakeCount <= 1) break;
          pool.stopFor(place, event.forInMs);
          counts.stops++;
          break;
        }
        case "clock":
          pool.setClockOf(event.place, event.byInMs);
          counts["clock steps"]++;
          break;
        case "network":
          proxies[event.service]?.setRules(event.conditions.rules);
          counts["network changes"]++;
      }
    }
    await until(durationInMs);
  } finally {
    clearInterval(report);
  }
}

function isEnough(scenarios: readonly Scenario[], operationLog: OperationLog): boolean {
  return scenarios.every((scenario) => doneIn(scenario, operationLog) >= (scenario.enough ?? 2));
}

/** Until no message is left, for a few polls in a row: it may be invisible for a moment. Returns where some are left. */
async function drained(scenarios: readonly Scenario[], storage: Storage, operationLog: OperationLog, pool: WorkerPool, limitInMs: number): Promise<readonly string[]> {
  const end = performance.now() + limitInMs;
  let left: readonly string[] = [];
  for (let quiet = 0; quiet < 4 && performance.now() < end; ) {
    await sleep(500);
    const all = await Promise.all(scenarios.map(async (scenario) => ((await scenario.isDrained?.(storage, operationLog, (task) => pool.isAlive(task))) ?? true ? [] : [scenario.name])));
    left = all.flat();
    quiet = left.length === 0 ? quiet + 1 : 0;
  }
  return left.map((name) => `${name}: not all of its work was done ${limitInMs / 1000} s after the storm`);
}

function faultsOf(proxies: readonly FaultProxy[], networks: readonly CopyingProxy[]): Record<string, number> {
  const kinds = { "lost answers": ["drop-response"], "refused connections": ["drop-request"], "errors 5xx": ["status-503", "status-500"], delays: ["delay", "late request", "late response"], hangs: ["hang"] };
  const sum = (rules: readonly string[]): number => proxies.reduce((n, proxy) => n + rules.reduce((m, rule) => m + proxy.faultCount(rule), 0), 0);
  return {
    requests: proxies.reduce((n, proxy) => n + proxy.requests, 0),
    ...Object.fromEntries(Object.entries(kinds).map(([kind, rules]) => [kind, sum(rules)])),
    "sent twice": networks.reduce((n, { copies }) => n + copies, 0),
    "delivered after the sender had gone": networks.reduce((n, { late }) => n + late, 0),
  };
}
