import { isLocked, leaseAt } from "./lease-machine.js";
import type { Lease } from "./lease-machine.js";
import type { FileRequest } from "./request.js";
import { fileTime, httpDate } from "./response.js";
import { StorageFault } from "./storage-fault.js";
import type { Entry, FileSystemEntry, Stamped } from "./tree.js";

type Headers = Record<string, string | undefined>;

export function stampHeaders({ etag, lastModified }: Stamped): Headers {
  return { "etag": etag, "last-modified": httpDate(lastModified) };
}

/** The SMB properties that files and directories have. */
export function entryHeaders(entry: Entry): Headers {
  return {
    ...stampHeaders(entry),
    "x-ms-file-attributes": entry.attributes,
    "x-ms-file-creation-time": fileTime(entry.createdAt),
    "x-ms-file-last-write-time": fileTime(entry.writtenAt),
    "x-ms-file-change-time": fileTime(entry.changedAt),
    "x-ms-file-permission-key": "0*0",
    "x-ms-file-id": entry.id,
    "x-ms-file-parent-id": entry.parent?.id ?? "0",
  };
}

export function leaseHeaders(stored: Lease, now: number): Headers {
  const lease = leaseAt(stored, now);
  const duration = lease.durationInSeconds === -1 ? "infinite" : "fixed";
  return {
    "x-ms-lease-status": isLocked(lease) ? "locked" : "unlocked",
    "x-ms-lease-state": lease.state,
    "x-ms-lease-duration": lease.state === "leased" ? duration : undefined,
  };
}

/** The attributes and times that a request sets, as a patch. It omits those that are missing, or to be preserved. */
export function smbPropertiesOf({ headers }: FileRequest, now: number, type: Entry["type"]): Partial<FileSystemEntry> {
  const patch: Partial<FileSystemEntry> = { changedAt: timeIn(headers["x-ms-file-change-time"], now) ?? now };
  const attributes = headers["x-ms-file-attributes"];
  if (attributes !== undefined && attributes !== "preserve") {
    patch.attributes = attributes === "None" ? (type === "directory" ? "Directory" : "Archive") : attributes;
  }
  const createdAt = timeIn(headers["x-ms-file-creation-time"], now);
  if (createdAt !== undefined) patch.createdAt = createdAt;
  const writtenAt = timeIn(headers["x-ms-file-last-write-time"], now);
  if (writtenAt !== undefined) patch.writtenAt = writtenAt;
  return patch;
}

function timeIn(value: string | undefined, now: number): number | undefined {
  if (value === undefined || value === "preserve") return undefined;
  if (value === "now") return now;
  const time = Date.parse(value);
  if (Number.isNaN(time)) throw new StorageFault("InvalidHeaderValue");
  return time;
}
