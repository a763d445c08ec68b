import type { TableClient } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import type { ShareClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import type * as AzureStorageConcurrency from "azure-storage-concurrency";

import type { OperationLog } from "./operation-log.js";
import type { Random } from "./random.js";

/** The library under test: a build of it, whole or broken on purpose. */
export type Library = typeof AzureStorageConcurrency;

/** Clients of everything that a run uses. */
export interface Storage {
  readonly container: ContainerClient;
  readonly table: TableClient;
  readonly claims: QueueClient;
  readonly commits: QueueClient;
  readonly orders: QueueClient;
  readonly invoices: QueueClient;
  readonly groups: QueueClient;
  readonly placed: QueueClient;
  readonly share: ShareClient;
}

/** A row of operations in one worker, one after the other. */
export interface Task {
  /** Unique for ever: it ends with the worker, or with an outcome that nobody knows. */
  readonly id: string;
  readonly library: Library;
  readonly storage: Storage;
  readonly random: Random;
  /** Aborts when nothing new is to be begun. */
  readonly finish: AbortSignal;
  /** Aborts when everything has to end. */
  readonly stop: AbortSignal;
  /** Does one operation, and tells the supervisor before and after. False: it was certainly not done. */
  operation(run: (op: number) => Promise<unknown>): Promise<boolean>;
  note(note: unknown): void;
  pause(fromMs: number, toMs: number): Promise<void>;
  /**
   * Now and then the whole process is stopped right here, for longer than a lease of 15 s lasts. Stops that come from
   * outside hardly ever hit the few milliseconds between a check and what depends on it.
   */
  mayFaint(): Promise<void>;
}

/** One use of the library, and what must be true of it whatever happens. */
export interface Scenario {
  readonly name: string;
  /** In words, for the table at the end. */
  readonly invariant: string;
  /** How many tasks each worker has. */
  readonly tasks: number;
  /** With clients that meet no faults, before the first worker starts. */
  prepare?(storage: Storage, library: Library): Promise<void>;
  /** Goes on until `task.finish` (or, for consumers, `task.stop`) aborts. */
  work(task: Task): Promise<void>;
  /** With clients that meet no faults, after the last worker ended: what is wrong, if anything. */
  check(storage: Storage, operationLog: OperationLog): Promise<string[]>;
  /** How much was done, where operations do not tell. */
  done?(operationLog: OperationLog): number;
  /** How much has to be done before the storm ends: less proves nothing. 2 by default. */
  readonly enough?: number;
  /** Whether there is still work left that nobody begins anew, as messages in a queue. */
  isDrained?(storage: Storage): Promise<boolean>;
}
