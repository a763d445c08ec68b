import { type FaultProxy, type FaultRule, delay, dropRequest, dropResponse, isRead, isWrite, replaceEndpoints, respondWith, startFaultProxy, type StorageEndpoints } from "../../src/testing.js";
import { randomFrom } from "../chaos/random.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { HistoryEvent } from "./history.js";
import { Recorder } from "./recorder.js";
import type { ProcessConfig, Round } from "./workers/jobs.js";

/** Options of {@link recordRun}. */
export interface RunOptions {
  readonly storage: StorageEndpoints & { readonly connectionString: string };
  readonly container: string;
  readonly table: string;
  readonly seed: number;
  /** About this many; each object gets `perObject` of them. */
  readonly operations: number;
  readonly perObject: number;
  readonly processes: number;
  /** Kill one process in every other round, and start another one in its place. */
  readonly kill: boolean;
  /** The share of writes whose response is lost. */
  readonly lostResponses: number;
  readonly library: string;
  readonly updatesBy: ProcessConfig["updatesBy"];
}

/** What the calls of a run went through. */
export interface RunReport {
  readonly recorder: Recorder;
  readonly faults: number;
  readonly kills: number;
}

/** How many callers each process has on each object. */
const callers = 2;

/** Lost, late, refused and repeated requests. A request that is late arrives although its sender has given it up. */
const rulesFor = ({ lostResponses }: RunOptions): readonly FaultRule[] => [
  delay({ minInMs: 1, maxInMs: 25 }, { probability: 0.15 }),
  delay({ minInMs: 1, maxInMs: 25 }, { probability: 0.1, at: "response", name: "late response" }),
  delay({ minInMs: 150, maxInMs: 400 }, { probability: 0.02, name: "very late request" }),
  delay({ minInMs: 150, maxInMs: 400 }, { probability: 0.01, at: "response", name: "very late response" }),
  dropRequest({ probability: 0.04 }),
  respondWith(503, { probability: 0.04 }),
  respondWith(500, { when: isWrite, probability: 0.04, at: "response", name: "500 after the commit" }),
  dropResponse({ when: isWrite, probability: lostResponses }),
  dropResponse({ when: isRead, probability: 0.04, name: "read lost" }),
];

/** Several processes, each behind fault proxies of its own, make calls on the same objects. Returns what they reported. */
export async function recordRun(options: RunOptions): Promise<RunReport> {
  const recorder = new Recorder();
  const rules = rulesFor(options);
  const proxies: FaultProxy[] = [];
  const team: Worker<never>[] = [];
  let kills = 0;
  const start = async (process: number): Promise<Worker<never>> => {
    // A process that replaces a killed one goes on behind the same proxies: late requests of the first one still arrive.
    const place = process % options.processes;
    const seed = options.seed * 1_000 + place;
    const blobs = (proxies[2 * place] ??= await startFaultProxy(options.storage.blobUrl, rules, { seed, logLimit: 0 }));
    const tables = (proxies[2 * place + 1] ??= await startFaultProxy(options.storage.tableUrl, rules, { seed: seed + 500, logLimit: 0 }));
    const worker = startWorker<never>(new URL("./workers/client.ts", import.meta.url), configOf(options, process, blobs.url, tables.url), { timeoutInMs: 600_000 });
    team[place] = worker;
    await worker.receive();
    return worker;
  };
  try {
    await Promise.all(Array.from({ length: options.processes }, (_, process) => start(process)));
    const random = randomFrom(options.seed).fork("kills");
    for (const [number, round] of roundsOf(options).entries()) {
      const victim = options.kill && number % 2 === 1 ? random.between(0, options.processes - 1) : undefined;
      await Promise.all(team.map((worker, place) => runRound(worker, round, recorder, place === victim ? random.between(20, 400) : undefined)));
      if (victim === undefined) continue;
      kills++;
      await start(options.processes * (number + 1) + victim);
    }
    return { recorder, faults: proxies.reduce((sum, proxy) => sum + proxy.faultCount(), 0), kills };
  } finally {
    await Promise.all(team.map((worker) => worker.stop()));
    await Promise.all(proxies.map((proxy) => proxy.stop()));
  }
}

/** In each round, all processes work on one blob and one entity. */
function roundsOf({ operations, perObject, processes }: RunOptions): Round[] {
  const calls = Math.round(perObject / (processes * callers));
  const rounds = Math.max(1, Math.round(operations / (2 * perObject)));
  return Array.from({ length: rounds }, (_, i) => ({
    objects: [{ kind: "blob" as const, name: `blob-${i}` }, { kind: "entity" as const, name: `entity-${i}` }],
    callers,
    calls,
  }));
}

/** Records what one process reports until it has finished the round, or is killed after this many of its reports. */
async function runRound(worker: Worker<never>, round: Round, recorder: Recorder, killAfter: number | undefined): Promise<void> {
  worker.send(round);
  for (let received = 0; ; received++) {
    if (received === killAfter) {
      worker.signal("SIGKILL");
      await worker.exited;
    }
    const message = await worker.receive<HistoryEvent | "round done">().catch((error: unknown) => {
      if (killAfter === undefined || received < killAfter) throw error;
      return undefined;
    });
    if (message === undefined || message === "round done") return;
    recorder.record(message);
  }
}

function configOf(options: RunOptions, process: number, blobUrl: string, tableUrl: string): ProcessConfig {
  const { seed, library, container, table, updatesBy } = options;
  const maxTries = [12, 3, 1, 5][process % 4] ?? 4;
  return { process, seed, library, container, table, updatesBy, maxTries, connectionString: replaceEndpoints(options.storage.connectionString, { blobUrl, tableUrl }) };
}
