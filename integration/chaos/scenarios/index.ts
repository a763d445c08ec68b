import type { Scenario } from "../scenario.js";
import { append } from "./append.js";
import { counterBlob, counterEntity } from "./counter.js";
import { ids } from "./ids.js";
import { linearizability } from "./linearizability.js";
import { election, locks, readerWriterLock, semaphore } from "./locks.js";
import { queueClaim, queueCommit } from "./queues.js";
import { reads } from "./reads.js";
import { settingsFile } from "./settings-file.js";
import { tableLock } from "./table-lock.js";
import { transfers } from "./transfers.js";

/** All that runs at once in a chaos run. */
export const scenarios: readonly Scenario[] = [
  counterEntity,
  counterBlob,
  transfers,
  linearizability,
  append,
  ids,
  reads,
  settingsFile,
  locks,
  semaphore,
  readerWriterLock,
  election,
  tableLock,
  queueClaim,
  queueCommit,
];
