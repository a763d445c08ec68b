/** The rows of an object: an entity has a second row in its partition, so that transactions have two. A blob has the first only. */
export type Row = "main" | "second";

/** Every write adds a token of its own, so that what is stored names the writes that it consists of. Null: does not exist. */
export type Tokens = readonly string[] | null;

/** What a client asks for. */
export type Input =
  /** `tryReadTarget`. */
  | { readonly op: "read"; readonly row: Row }
  /** `optimisticUpdate` with a mutator that adds a token; with or without `initial`. */
  | { readonly op: "update"; readonly row: Row; readonly token: string; readonly initial: boolean }
  /** `optimisticUpdate` with a mutator that changes nothing. */
  | { readonly op: "keep"; readonly row: Row }
  /** `createIfNotExists`. */
  | { readonly op: "create"; readonly row: Row; readonly token: string }
  /** `optimisticUpdate` with a mutator that returns `DELETE`. */
  | { readonly op: "delete"; readonly row: Row }
  /** `deleteIfUnchanged`: the ETag, and what was read with it. */
  | { readonly op: "deleteIfUnchanged"; readonly row: Row; readonly tokens: readonly string[]; readonly etag: string }
  /** `overwrite`. */
  | { readonly op: "overwrite"; readonly row: Row; readonly token: string }
  /** `runTransaction` that reads both rows and adds a token to both, creating those that do not exist. */
  | { readonly op: "transact add"; readonly token: string }
  /** `runTransaction` that reads both rows. */
  | { readonly op: "transact read" }
  /** `runTransaction` that reads both rows, deletes the first one, and adds a token to the second; nothing if the first does not exist. */
  | { readonly op: "transact move"; readonly token: string }
  /** `runTransaction` that creates the first row without reading it. */
  | { readonly op: "transact create"; readonly token: string };

/** What the client was told. */
export type Output =
  /** What was read; by an update: what it wrote; by a delete: what it deleted. */
  | { readonly kind: "value"; readonly tokens: Tokens; readonly etag?: string | undefined; readonly outcome?: string | undefined }
  /** What a transaction read. */
  | { readonly kind: "rows"; readonly main: Tokens; readonly second: Tokens }
  | { readonly kind: "done" }
  /** Rejections that say that nothing was written, and what was found instead. */
  | { readonly kind: "not found" }
  | { readonly kind: "already exists" }
  | { readonly kind: "changed" }
  /** Any other rejection that says that nothing was written. */
  | { readonly kind: "rejected"; readonly error: string };

/** What a client reports. The first is sent before the call begins, so that a kill cannot hide the call. */
export type HistoryEvent =
  | { readonly kind: "invoke"; readonly id: string; readonly object: string; readonly process: string; readonly input: Input; readonly at: number }
  | { readonly kind: "return"; readonly id: string; readonly output: Output; readonly at: number }
  /** The call ended, and its outcome is unknown: it may still take effect. */
  | { readonly kind: "unknown"; readonly id: string; readonly error: string };
