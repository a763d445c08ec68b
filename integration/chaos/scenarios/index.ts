import type { Scenario } from "../scenario.js";
import { append } from "./append.js";
import { counterBlob, counterEntity } from "./counter.js";
import { ids } from "./ids.js";
import { linearizability } from "./linearizability.js";
import { leases } from "./leases.js";
import { locks, readerWriterLock, semaphore } from "./locks.js";
import { once } from "./once.js";
import { outbox } from "./outbox.js";
import { pages } from "./pages.js";
import { queueChain } from "./queue-chain.js";
import { queueGroups } from "./queue-groups.js";
import { queueClaim, queueCommit } from "./queues.js";
import { reads } from "./reads.js";
import { schedule } from "./schedule.js";
import { balancer, election } from "./services.js";
import { settingsFile } from "./settings-file.js";
import { tableLock } from "./table-lock.js";
import { transfers } from "./transfers.js";
import { watches } from "./watches.js";

/** All that runs at once in a chaos run. */
export const scenarios: readonly Scenario[] = [
  counterEntity,
  counterBlob,
  transfers,
  once,
  linearizability,
  append,
  ids,
  reads,
  watches,
  pages,
  settingsFile,
  leases,
  locks,
  semaphore,
  readerWriterLock,
  election,
  schedule,
  balancer,
  tableLock,
  queueClaim,
  queueCommit,
  queueChain,
  queueGroups,
  outbox,
];
