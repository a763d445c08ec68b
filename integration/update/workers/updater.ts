import { isConcurrencyError, jsonBlob, optimisticUpdate, readTarget, tableEntity, type UpdateTarget } from "../../../src/index.js";
import { fastContainer, fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";
import { updateBlobByHand, updateEntityByHand } from "./hand-written.js";
import { appliedIds, type Change, type Subject, type UpdateJob, type UpdateReport } from "./jobs.js";

/** Does one job after the other until it is stopped. */
runWorker(async (_config, parent) => {
  parent.send("ready");
  for (;;) parent.send(await run(await parent.receive<UpdateJob>()));
});

async function run(job: UpdateJob): Promise<UpdateReport> {
  const report = { resolved: [] as string[], unknown: [] as string[], failed: [] as UpdateReport["failed"], looked: 0, attempts: 0 };
  const update = updaterFor(job, report);
  const ids = [...job.ids];
  const work = async (): Promise<void> => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      try {
        await update(id);
        report.resolved.push(id);
      } catch (error) {
        if (isConcurrencyError(error, "COMMIT_UNKNOWN")) report.unknown.push(id);
        else report.failed.push({ id, message: String(error) });
      }
    }
  };
  await Promise.all(Array.from({ length: job.updaters }, work));
  return report;
}

function updaterFor(job: UpdateJob, report: { looked: number; attempts: number }): (id: string) => Promise<void> {
  const { connectionString, place, by, coalesce = true } = job;
  const applying = (id: string) => (subject: Subject) => {
    report.attempts++;
    apply(job.change, id, subject);
  };
  let target: UpdateTarget<Subject>;
  if (place.kind === "blob") {
    const blob = fastContainer(connectionString, place.container).getBlockBlobClient(place.blob);
    if (by === "hand-written loop") return (id) => updateBlobByHand(blob, applying(id));
    target = jsonBlob<Subject>(blob);
  } else {
    const table = fastTable(connectionString, place.table);
    const { partitionKey, rowKey } = place;
    if (by === "hand-written loop") return (id) => updateEntityByHand(table, partitionKey, rowKey, applying(id));
    // The changes use only what a blob and an entity have in common.
    target = tableEntity<Subject>(table, partitionKey, rowKey) as unknown as UpdateTarget<Subject>;
  }
  const update = async (id: string): Promise<void> => {
    try {
      await optimisticUpdate(target, applying(id), { coalesce });
    } catch (error) {
      if (job.onUnknown !== "look" || !isConcurrencyError(error, "COMMIT_UNKNOWN")) throw error;
      report.looked++;
      if (!appliedIds((await readTarget(target)).value).includes(id)) await update(id);
    }
  };
  return update;
}

function apply(change: Change, id: string, subject: Subject): void {
  subject.n += 1;
  subject.applied = subject.applied === "" ? id : `${subject.applied},${id}`;
  if (change === "add") return;
  for (const name of Object.keys(subject)) if (name.startsWith("by_")) Reflect.deleteProperty(subject, name);
  subject[`by_${id}`] = true;
}
