import type { LeasableLike } from "../clients.js";
import { blobLeaseAdapter, isBlobLeasable } from "./blob-lease-adapter.js";
import type { LeaseAdapter } from "./lease-adapter.js";
import { isShareLeasable, shareLeaseAdapter } from "./share-lease-adapter.js";

/** The adapter of what can be leased. Everything else is a TypeError. */
export function leaseAdapterOf(target: LeasableLike): LeaseAdapter {
  const given: unknown = target;
  if (typeof given === "object" && given !== null) {
    refuseSnapshot((given as { url?: unknown }).url);
    if (isBlobLeasable(given)) return blobLeaseAdapter(given);
    if (isShareLeasable(given)) return shareLeaseAdapter(given);
    if ("listFilesAndDirectories" in given) {
      throw new TypeError("a directory cannot be leased: pass a ShareFileClient, or the ShareClient");
    }
  }
  throw new TypeError("not a target for leases: pass a blob client, a ContainerClient, a ShareClient or a ShareFileClient");
}

/** The service refuses it too, but only once a request has been sent, and with a code that does not say why. */
function refuseSnapshot(url: unknown): void {
  if (typeof url === "string" && /[?&](snapshot|sharesnapshot|versionid)=/i.test(url)) {
    throw new TypeError("a snapshot or an old version cannot be leased: nobody can change it");
  }
}
