/** What the workers tell the supervisor, in the order in which it happened in each of them. */
export type Report =
  /** The worker is about to do operation number `op` of its task. Sent before it begins: a kill cannot swallow it. */
  | { readonly kind: "begin"; readonly scenario: string; readonly task: string; readonly op: number }
  /** The library said that it is done. */
  | { readonly kind: "done"; readonly scenario: string; readonly task: string; readonly op: number; readonly lane: string }
  /** The library said that it was not done, and never will be. */
  | { readonly kind: "refused"; readonly scenario: string; readonly task: string; readonly op: number; readonly error: string }
  /** The library could not say. The task ends with it. */
  | { readonly kind: "uncertain"; readonly scenario: string; readonly task: string; readonly op: number; readonly error: string }
  /** An error that the scenario does not expect, of an operation or of a service: a failure of the run. */
  | { readonly kind: "unexpected"; readonly scenario: string; readonly task: string; readonly error: string; readonly stack: string }
  /** Something other than an operation went forward: a handler, a term, a job. */
  | { readonly kind: "progress"; readonly scenario: string; readonly task: string; readonly lane: string }
  /** The task holds something from now on, or no longer. */
  | { readonly kind: "hold"; readonly scenario: string; readonly task: string; readonly resource: string; readonly held: boolean }
  /** A task got nothing done for too long although the storm is over. */
  | { readonly kind: "stuck"; readonly scenario: string; readonly task: string; readonly waiting: string }
  /** Each task has done something since the storm was over, or is stuck. */
  | { readonly kind: "recovered" }
  /** A part of a second in which the process ran, and the storage responded. */
  | { readonly kind: "beat" }
  /** The worker is about to stop itself, at the worst moment that it could find, and wants to be woken up. */
  | { readonly kind: "faint"; readonly forInMs: number }
  /** The worker has stopped itself at such a moment, and wants to be killed there. */
  | { readonly kind: "die" }
  /** Something that the check of a scenario wants to know. */
  | { readonly kind: "note"; readonly scenario: string; readonly task: string; readonly note: unknown };

/**
 * What the supervisor tells the workers. `calm`: the storm is over, each task does one thing more, and ends; `stop`: end the consumers too;
 * `setClockBy`: the wall clock of the machine is set.
 */
export type Order = "calm" | "stop" | { readonly setClockBy: number };

/** What a worker is started with. */
export interface Assignment {
  readonly worker: string;
  readonly seed: number;
  /** Where the library is, as a URL: the build, or one that was broken on purpose. */
  readonly library: string;
  readonly storage: StorageNames;
  /** Through the fault proxies. */
  readonly connectionString: string;
  /** Past the fault proxies: only to see whether the storage responds. */
  readonly directly: string;
  /** Names of the scenarios. */
  readonly scenarios: readonly string[];
  /** By how much its wall clock is wrong from the beginning. */
  readonly clockOffsetInMs: number;
}

/** Names of what the run uses in the storage. */
export interface StorageNames {
  readonly container: string;
  readonly leased: string;
  readonly table: string;
  readonly claims: string;
  readonly orders: string;
  readonly invoices: string;
  readonly groups: string;
  readonly placed: string;
  readonly commits: string;
  readonly share: string;
}
