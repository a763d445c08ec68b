/**
 * The parts of the Azure SDK clients that the library calls, as types: for fakes, and for clients of other libraries. No code.
 *
 * @packageDocumentation
 */
export type * from "./clients/blob.js";
export type { AbortSignalLike } from "./clients/call.js";
export type * from "./clients/file.js";
export type * from "./clients/leasable.js";
export type * from "./clients/metrics.js";
export type * from "./clients/queue.js";
export type * from "./clients/schema.js";
export type * from "./clients/table.js";
