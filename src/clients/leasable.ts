import type { LeasableBlobLike } from "./blob.js";
import type { LeasableShareLike } from "./file.js";

/**
 * A client whose resource `withLease` can lease: any blob client, a `ContainerClient`, a `ShareClient` or a `ShareFileClient`.
 * @example
 * ```ts
 * const isLeased = async (client: LeasableLike) => (await inspectLease(client)).state === "leased";
 * ```
 */
export type LeasableLike = LeasableBlobLike | LeasableShareLike;
