import type { BlobLeasableLike } from "./blob.js";
import type { FileLeasableLike, ShareLeasableLike } from "./file.js";

/** A client whose resource can be leased: any blob client, a `ContainerClient`, a `ShareClient` or a `ShareFileClient`. */
export type LeasableLike = BlobLeasableLike | ShareLeasableLike | FileLeasableLike;
