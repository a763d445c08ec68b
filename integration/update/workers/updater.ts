import { isCommitUnknownError, jsonBlob, optimisticUpdate, tableEntity, type UpdateTarget } from "../../../src/index.js";
import { fastContainer, fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";
import { updateBlobByHand, updateEntityByHand } from "./hand-written.js";
import type { Change, Subject, UpdateJob, UpdateReport } from "./jobs.js";

/** Does one job after the other until it is stopped. */
runWorker(async (_config, parent) => {
  parent.send("ready");
  for (;;) parent.send(await run(await parent.receive<UpdateJob>()));
});

async function run(job: UpdateJob): Promise<UpdateReport> {
  const report: UpdateReport = { resolved: [], unknown: [], failed: [], attempts: 0 };
  let attempts = 0;
  const update = updaterFor(job, () => attempts++);
  const ids = [...job.ids];
  const work = async (): Promise<void> => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      try {
        await update(id);
        report.resolved.push(id);
      } catch (error) {
        if (isCommitUnknownError(error)) report.unknown.push(id);
        else report.failed.push({ id, message: String(error) });
      }
    }
  };
  await Promise.all(Array.from({ length: job.updaters }, work));
  return { ...report, attempts };
}

function updaterFor({ connectionString, place, by, change, coalesce = true }: UpdateJob, onAttempt: () => void) {
  const applying = (id: string) => (subject: Subject) => {
    onAttempt();
    apply(change, id, subject);
  };
  let target: UpdateTarget<Subject>;
  if (place.kind === "blob") {
    const blob = fastContainer(connectionString, place.container).getBlockBlobClient(place.blob);
    if (by === "hand-written loop") return (id: string) => updateBlobByHand(blob, applying(id));
    target = jsonBlob<Subject>(blob);
  } else {
    const table = fastTable(connectionString, place.table);
    const { partitionKey, rowKey } = place;
    if (by === "hand-written loop") return (id: string) => updateEntityByHand(table, partitionKey, rowKey, applying(id));
    target = tableEntity<Subject>(table, partitionKey, rowKey);
  }
  return async (id: string) => { await optimisticUpdate(target, applying(id), { coalesce }); };
}

function apply(change: Change, id: string, subject: Subject): void {
  subject.n += 1;
  if (change === "append") subject.applied = subject.applied === "" ? id : `${subject.applied},${id}`;
  if (change === "count and remove") {
    for (const name of Object.keys(subject)) if (name.startsWith("by_")) Reflect.deleteProperty(subject, name);
    subject[`by_${id}`] = true;
  }
}
