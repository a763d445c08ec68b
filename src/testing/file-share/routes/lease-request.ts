import { randomUUID } from "node:crypto";
import { stampHeaders } from "../entry-headers.js";
import { normalizeLeaseId } from "../lease-id.js";
import { applyLease } from "../lease-machine.js";
import type { Lease, LeaseKind, LeaseRequest } from "../lease-machine.js";
import { leaseIdOf, numberIn, requiredHeader } from "../request.js";
import type { FileRequest } from "../request.js";
import type { FileResponse } from "../response.js";
import { StorageFault } from "../storage-fault.js";
import type { Stamped } from "../tree.js";

/** `comp=lease` on a file or a share: the ETag does not change. */
export function runLease(kind: LeaseKind, leasable: Stamped & { lease: Lease }, request: LeaseRequest, now: number): FileResponse {
  const { lease, status, leaseTime } = applyLease(kind, leasable.lease, request, now);
  leasable.lease = lease;
  return {
    status,
    headers: {
      ...stampHeaders(leasable),
      "x-ms-lease-id": request.action === "break" ? undefined : lease.id,
      "x-ms-lease-time": leaseTime?.toString(),
    },
  };
}

/** The lease request in the headers. Checked before the file is read: a malformed id is 400 on a missing file, too. */
export function parseLeaseRequest(request: FileRequest): LeaseRequest {
  const action = requiredHeader(request, "x-ms-lease-action").toLowerCase();
  const given = leaseIdOf(request);
  const proposed = request.headers["x-ms-proposed-lease-id"];
  switch (action) {
    case "acquire": {
      const durationInSeconds = numberIn(requiredHeader(request, "x-ms-lease-duration"));
      return { action, id: proposed === undefined ? randomUUID() : normalizeLeaseId(proposed), durationInSeconds };
    }
    case "renew":
    case "release":
      return { action, id: needed(given) };
    case "change":
      return { action, id: needed(given), proposedId: normalizeLeaseId(needed(proposed)) };
    case "break": {
      const period = request.headers["x-ms-lease-break-period"];
      return { action, breakPeriodInSeconds: period === undefined ? undefined : numberIn(period) };
    }
    default:
      throw new StorageFault("InvalidHeaderValue");
  }
}

function needed(value: string | undefined): string {
  if (value === undefined) throw new StorageFault("MissingRequiredHeader");
  return value;
}
