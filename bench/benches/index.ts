import type { Bench } from "../harness.js";
import { growthProcesses, growthWriters } from "./growth.js";
import { download } from "./download.js";
import { hotBlob } from "./hot-blob.js";
import { hotEntity } from "./hot-entity.js";
import { hotEntityProcesses } from "./hot-entity-processes.js";
import { ids } from "./ids.js";
import { leasedUpdates } from "./leased-update.js";
import { leaseUncontended } from "./lease-uncontended.js";
import { lockHandover } from "./lock-handover.js";
import { lockLocal } from "./lock-local.js";
import { loneUpdate } from "./lone-update.js";
import { overhead } from "./overhead.js";
import { queueCommit } from "./queue-commit.js";
import { queueInbox } from "./queue-inbox.js";
import { queuePlain } from "./queue-plain.js";
import { transfer } from "./transfer.js";

/** All benches, in the order in which they run. */
export const benches: readonly Bench[] = [
  hotEntity,
  hotBlob,
  hotEntityProcesses,
  loneUpdate,
  overhead,
  transfer,
  download,
  lockLocal,
  lockHandover,
  leaseUncontended,
  leasedUpdates,
  queuePlain,
  queueInbox,
  queueCommit,
  ids,
  growthWriters,
  growthProcesses,
];
