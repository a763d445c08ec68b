import { expect, onTestFinished } from "vitest";

import { type FaultProxy, type FaultRule, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";
import { startWorkers, type Worker } from "../support/workers.js";
import { appliedIds, emptySubject, type Place, type Subject, type UpdateJob, type UpdateReport } from "./workers/jobs.js";

/** Processes that wait for jobs; started once for many tests, as a start takes most of a second. */
export async function startUpdaters(count: number): Promise<Worker<never>[]> {
  const workers = startWorkers<never>(new URL("./workers/updater.ts", import.meta.url), Array<null>(count).fill(null), {
    timeoutInMs: 180_000,
  });
  await Promise.all(workers.map((worker) => worker.receive()));
  return workers;
}

/** A blob or an entity that holds an empty subject, behind a fault proxy of its own. */
export interface Scene {
  readonly place: Place;
  readonly proxy: FaultProxy;
  /** What goes through the proxy. */
  readonly connectionString: string;
  /** What is really stored, read past the proxy. */
  stored(): Promise<Subject>;
}

export async function sceneOf(kind: "blob" | "entity", rules: readonly FaultRule[]): Promise<Scene> {
  const { blobUrl, tableUrl } = azurite();
  const proxy = await startFaultProxy(kind === "blob" ? blobUrl : tableUrl, rules, { logLimit: 100_000 });
  onTestFinished(() => proxy.stop());
  const through = connectionString({ [kind === "blob" ? "blobUrl" : "tableUrl"]: proxy.url });
  if (kind === "blob") {
    const { containerName: container } = await freshContainer();
    const blob = containerClient(container).getBlockBlobClient("subject");
    const text = JSON.stringify(emptySubject);
    await blob.upload(text, text.length);
    const stored = async (): Promise<Subject> => JSON.parse((await blob.downloadToBuffer()).toString()) as Subject;
    return { place: { kind, container, blob: "subject" }, proxy, connectionString: through, stored };
  }
  const { tableName: table } = await freshTable();
  const keys = { partitionKey: "p", rowKey: "subject" };
  await tableClient(table).createEntity({ ...keys, ...emptySubject });
  const stored = (): Promise<Subject> => tableClient(table).getEntity<Subject>(keys.partitionKey, keys.rowKey);
  return { place: { kind, table, ...keys }, proxy, connectionString: through, stored };
}

/** Has all workers do their share of `total` updates at the same time, and adds up their reports. */
export async function updateTogether(
  workers: readonly Worker<never>[],
  scene: Scene,
  job: Pick<UpdateJob, "by" | "change" | "updaters" | "coalesce" | "onUnknown"> & { readonly total: number },
): Promise<UpdateReport> {
  const { total, ...rest } = job;
  const reports = workers.map(async (worker, index) => {
    const share = Math.floor(total / workers.length) + (index < total % workers.length ? 1 : 0);
    const ids = Array.from({ length: share }, (_, n) => `${index}_${n}`);
    worker.send({ ...rest, connectionString: scene.connectionString, place: scene.place, ids } satisfies UpdateJob);
    return worker.receive<UpdateReport>();
  });
  return (await Promise.all(reports)).reduce((sum, report) => ({
    resolved: [...sum.resolved, ...report.resolved],
    unknown: [...sum.unknown, ...report.unknown],
    failed: [...sum.failed, ...report.failed],
    looked: sum.looked + report.looked,
    attempts: sum.attempts + report.attempts,
  }));
}

/** How often each operation is found in what is stored, or in other lists of operations. */
export function timesApplied(...lists: readonly string[][]): (id: string) => number {
  const times = new Map<string, number>();
  for (const id of lists.flat()) times.set(id, (times.get(id) ?? 0) + 1);
  return (id) => times.get(id) ?? 0;
}

/**
 * All operations resolved, and each of them is stored exactly once. A process that stood still while the others wrote
 * 32 times had to look; on a busy machine that happens, but rarely, or the journal is good for nothing.
 */
export async function expectAllOnce(scene: Scene, report: UpdateReport, total: number): Promise<void> {
  expect({ failed: report.failed, unknown: report.unknown }).toEqual({ failed: [], unknown: [] });
  expect(report.resolved).toHaveLength(total);
  const subject = await scene.stored();
  expect(subject.n).toBe(total);
  expect(appliedIds(subject).sort()).toEqual([...report.resolved].sort());
  expect(report.looked).toBeLessThanOrEqual(total / 20);
}
