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
  /** Leased as a whole by a scenario. */
  readonly leased: ContainerClient;
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
  /** Aborts when nothing new is to be begun: the storm is over, and this task has done something since. */
  readonly finish: AbortSignal;
  /** Aborts when the storm is over. */
  readonly calm: AbortSignal;
  /** Aborts when everything has to end. */
  readonly stop: AbortSignal;
  /**
   * Does one operation, and tells the supervisor before and after. False: it was certainly not done. `lane` is the kind of work that has gone
   * forward with it.
   */
  operation(run: (op: number) => Promise<unknown>, lane?: string): Promise<boolean>;
  /** Something went forward without an operation of the task: a handler, a term. */
  progress(lane: string): void;
  /** Runs it while the supervisor knows that this process holds the resource. */
  holding<T>(resource: string, run: () => Promise<T>): Promise<T>;
  /** An error that no operation rejected with, such as that of an event: a failure of the run, unless the scenario expects it. */
  reportError(error: unknown): void;
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
  /** The errors that the storm may cause, as `expected-errors.ts` names them. Any other fails the run. */
  readonly expects: readonly string[];
  /**
   * The kinds of work of which each has to go forward in any two lease times.
   * @defaultValue operations
   */
  readonly lanes?: readonly string[];
  /** The tasks, by their number in a worker, that need not do anything after the storm: consumers, and those that wait for their turn. */
  readonly unhurried?: readonly number[];
  /** What a holder that was killed or suspended held has to be taken over at least once in the run. */
  readonly takesOver?: boolean;
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
  /** Whether there is no work left that was begun, as messages in a queue. `isAlive`: whether the process of a task runs. */
  isDrained?(storage: Storage, operationLog: OperationLog, isAlive: (task: string) => boolean): Promise<boolean>;
}
