import { createHash } from "node:crypto";
import { entryHeaders } from "../entry-headers.js";
import { passLease } from "../lease-machine.js";
import type { Lease } from "../lease-machine.js";
import type { Operation, RouteContext } from "../operation.js";
import { leaseIdOf } from "../request.js";
import type { FileRequest } from "../request.js";
import { awaitFlush, checkSharing } from "../smb-opens.js";
import { StorageFault } from "../storage-fault.js";
import { fileAt, findPlace } from "../tree.js";
import type { FileEntry, Place, SmbAccess } from "../tree.js";

export function placeFor({ request, state }: RouteContext): Place {
  return findPlace(state.share(request.target.share ?? ""), request.target.path);
}

/** Replacing a file requires more permissions of a SAS than creating one. */
export function permissionsToPut(context: RouteContext): string {
  return placeFor(context).entry ? "w" : "cw";
}

/** The file that a request reads, after the checks of its lease and of SMB clients. */
export function fileToRead(context: RouteContext, needs: readonly SmbAccess[]): FileEntry {
  const file = fileAt(placeFor(context));
  passLease("file", file.lease, leaseIdOf(context.request), "read", context.state.clock.now());
  awaitFlush(file);
  checkSharing(file, needs);
  return file;
}

/** Checks the lease and SMB clients for a request that changes an existing file; returns the lease as it is afterwards. */
export function checkChange(file: FileEntry, leaseId: string | undefined, needs: readonly SmbAccess[], context: RouteContext): Lease {
  const lease = passLease("file", file.lease, leaseId, "write", context.state.clock.now());
  awaitFlush(file);
  checkSharing(file, needs);
  return lease;
}

export function checkNotReadOnly(file: FileEntry): void {
  if (file.attributes.has("ReadOnly")) throw new StorageFault("ReadOnlyAttribute");
}

/** Rejects content that is not the one that was sent. */
export function checkMd5({ headers, body }: FileRequest): void {
  const md5 = headers["content-md5"];
  if (md5 !== undefined && md5 !== md5Of(body)) throw new StorageFault("Md5Mismatch");
}

export function md5Of(bytes: Buffer): string {
  return createHash("md5").update(bytes).digest("base64");
}

/** An operation that changes a file. `change` checks all its own conditions before it changes anything. */
export function changeFile(
  status: number,
  needs: readonly SmbAccess[],
  change: (file: FileEntry, context: RouteContext) => Record<string, string | undefined>,
): Operation {
  return {
    level: "object",
    permissions: "w",
    run: (context) => {
      const { request, state } = context;
      const file = fileAt(placeFor(context));
      const lease = checkChange(file, leaseIdOf(request), needs, context);
      const headers = change(file, context);
      // Only now: a rejected request must not change a broken lease into an available one.
      file.lease = lease;
      state.touch(file);
      return { status, headers: { ...entryHeaders(file), "x-ms-request-server-encrypted": "true", ...headers } };
    },
  };
}
