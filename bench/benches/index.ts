import type { Bench } from "../harness.js";
import { balancer } from "./balancer.js";
import { bigDocuments } from "./big-documents.js";
import { growthProcesses, growthWriters } from "./growth.js";
import { download } from "./download.js";
import { hotBlob } from "./hot-blob.js";
import { hotEntity } from "./hot-entity.js";
import { hotEntityProcesses } from "./hot-entity-processes.js";
import { ids } from "./ids.js";
import { importCost } from "./import-cost.js";
import { leasedUpdates } from "./leased-update.js";
import { leaseUncontended } from "./lease-uncontended.js";
import { lockHandover } from "./lock-handover.js";
import { lockLocal } from "./lock-local.js";
import { lockProcesses } from "./lock-processes.js";
import { loneUpdate } from "./lone-update.js";
import { memory } from "./memory.js";
import { once } from "./once.js";
import { outbox } from "./outbox.js";
import { overhead } from "./overhead.js";
import { queueCommit } from "./queue-commit.js";
import { queueHotPartition } from "./queue-hot-partition.js";
import { queueInbox } from "./queue-inbox.js";
import { queuePlain } from "./queue-plain.js";
import { schedule } from "./schedule.js";
import { semaphore } from "./semaphore.js";
import { slowMutators } from "./slow-mutators.js";
import { transfer } from "./transfer.js";

/** All benches, in the order in which they run. */
export const benches: readonly Bench[] = [
  hotEntity,
  hotBlob,
  hotEntityProcesses,
  loneUpdate,
  overhead,
  bigDocuments,
  slowMutators,
  transfer,
  download,
  lockLocal,
  lockHandover,
  lockProcesses,
  semaphore,
  leaseUncontended,
  leasedUpdates,
  queuePlain,
  queueInbox,
  queueCommit,
  queueHotPartition,
  outbox,
  once,
  schedule,
  balancer,
  ids,
  memory,
  importCost,
  growthWriters,
  growthProcesses,
];
