import type { LeasableBlobLike } from "./blob.js";
import type { LeasableShareLike } from "./file.js";

/** A client whose resource {@link withLease} can lease: any blob client, a `ContainerClient`, a `ShareClient` or a `ShareFileClient`. */
export type LeasableLike = LeasableBlobLike | LeasableShareLike;
