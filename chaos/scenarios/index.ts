import type { Scenario } from "../scenario.js";
import { counterBlob, counterEntity } from "./counter.js";
import { election, locks, semaphore } from "./locks.js";
import { queueClaim, queueCommit } from "./queues.js";
import { tableLock } from "./table-lock.js";
import { transfers } from "./transfers.js";

/** All that runs at once in a chaos run. */
export const scenarios: readonly Scenario[] = [counterEntity, counterBlob, transfers, locks, semaphore, election, tableLock, queueClaim, queueCommit];
