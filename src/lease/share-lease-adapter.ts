import type { FileLeasableLike, LeaseAnswerLike, ShareLeasableLike } from "../clients.js";
import { ownerOf } from "../internal/owner.js";
import { displayUrl } from "../internal/url.js";
import { leaseOptions } from "./lease-adapter.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapter.js";

export function isShareLeasable(target: object): target is ShareLeasableLike | FileLeasableLike {
  return typeof (target as Partial<FileLeasableLike>).getShareLeaseClient === "function";
}

/** Leases of Azure Files: those of a share expire as those of a blob do, that of a file never. */
export function shareLeaseAdapter(target: ShareLeasableLike | FileLeasableLike): LeaseAdapter {
  const kind = "getDirectoryClient" in target ? "share" : "file";
  return {
    url: displayUrl(target.url),
    owner: ownerOf(target),
    key: target.url,
    kind,
    acquire: (id, duration, request) => target.getShareLeaseClient(id).acquireLease(duration, leaseOptions(request)),
    renew: (id, duration, request) => (kind === "share" ? renewShare(target, id, duration, request) : confirm(target, id, request)),
    change: (id, proposed, request) => target.getShareLeaseClient(id).changeLease(proposed, leaseOptions(request)),
    release: (id, request) => target.getShareLeaseClient(id).releaseLease(leaseOptions(request)),
    breakIt: (period, request) => {
      // Without a period the lease of a share would go on for the time that is left. The SDK's types do not know it,
      // but it is what the request is made of.
      const options = { ...leaseOptions(request), ...(kind === "share" && { breakPeriod: period }) };
      return target.getShareLeaseClient().breakLease(options);
    },
    look: (request) => target.getProperties(leaseOptions(request)),
    create: undefined,
  };
}

/**
 * Whether the lease is there still, by a read that names it: refused once it is broken, released or another's. Acquiring
 * again with the same id would not tell: it succeeds on what was broken, and brings back what somebody took away.
 */
async function confirm(target: FileLeasableLike, leaseId: string, request: LeaseRequest): Promise<LeaseAnswerLike> {
  const { leaseState } = await target.getProperties({ ...leaseOptions(request), leaseAccessConditions: { leaseId } });
  return { leaseId, leaseState };
}

/**
 * The SDK's `renewLease` throws, and so it is acquired again with the same id, which starts its time anew. Not without
 * a look: a lease that was broken in the meantime would come back to life. What remains is the moment between the two.
 */
async function renewShare(share: FileLeasableLike, leaseId: string, duration: number, request: LeaseRequest): Promise<LeaseAnswerLike> {
  const confirmed = await confirm(share, leaseId, request);
  if (confirmed.leaseState !== undefined && confirmed.leaseState !== "leased") return confirmed;
  return share.getShareLeaseClient(leaseId).acquireLease(duration, leaseOptions(request));
}
