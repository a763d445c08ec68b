/** What the workers tell the supervisor, in the order in which it happened in each of them. */
export type Report =
  /** The worker is about to do operation number `op` of its task. Sent before it begins: a kill cannot swallow it. */
  | { readonly kind: "begin"; readonly scenario: string; readonly task: string; readonly op: number }
  /** The library said that it is done. */
  | { readonly kind: "done"; readonly scenario: string; readonly task: string; readonly op: number }
  /** The library said that it was not done, and never will be. */
  | { readonly kind: "refused"; readonly scenario: string; readonly task: string; readonly op: number; readonly error: string }
  /** The library could not say. The task ends with it. */
  | { readonly kind: "uncertain"; readonly scenario: string; readonly task: string; readonly op: number; readonly error: string }
  /** The worker is about to stop itself, at the worst moment that it could find, and wants to be woken up. */
  | { readonly kind: "faint"; readonly forInMs: number }
  /** Something that the check of a scenario wants to know. */
  | { readonly kind: "note"; readonly scenario: string; readonly task: string; readonly note: unknown };

/** What the supervisor tells the workers. `finish`: begin nothing new; `stop`: end the consumers too. */
export type Order = "finish" | "stop";

/** What a worker is started with. */
export interface Assignment {
  readonly worker: string;
  readonly seed: number;
  /** Where the library is, as a URL: the build, or one that was broken on purpose. */
  readonly library: string;
  readonly storage: StorageNames;
  /** Through the fault proxies. */
  readonly connectionString: string;
}

/** Names of what the run uses in the storage. */
export interface StorageNames {
  readonly container: string;
  readonly table: string;
  readonly claims: string;
  readonly orders: string;
  readonly invoices: string;
  readonly groups: string;
  readonly placed: string;
  readonly commits: string;
  readonly share: string;
}
