import { attributesText, parseAttributes } from "./file-attributes.js";
import type { FileAttribute, FileAttributes } from "./file-attributes.js";
import { fileTimeOf, fileTimeText, parseFileTime } from "./file-time.js";
import type { FileTime } from "./file-time.js";
import { permissionKey } from "./gaps.js";
import { isLocked, leaseAt } from "./lease-machine.js";
import type { Lease } from "./lease-machine.js";
import type { FileRequest } from "./request.js";
import { httpDate } from "./response.js";
import type { Entry, FileSystemEntry, Stamped } from "./tree.js";

type Headers = Record<string, string | undefined>;

export function stampHeaders({ etag, lastModified }: Stamped): Headers {
  return { "etag": etag, "last-modified": httpDate(lastModified) };
}

/** The SMB properties that files and directories have. */
export function entryHeaders(entry: Entry): Headers {
  return {
    ...stampHeaders(entry),
    "x-ms-file-attributes": attributesText(entry.attributes),
    "x-ms-file-creation-time": fileTimeText(entry.createdAt),
    "x-ms-file-last-write-time": fileTimeText(entry.writtenAt),
    "x-ms-file-change-time": fileTimeText(entry.changedAt),
    "x-ms-file-permission-key": permissionKey,
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
export function smbPropertiesOf(request: FileRequest, now: number, source?: FileSystemEntry): Partial<FileSystemEntry> {
  const time = (name: string, ofSource: FileTime | undefined): FileTime | undefined => timeIn(request.headers[name], now, ofSource);
  const attributes = attributesIn(request, source);
  const createdAt = time("x-ms-file-creation-time", source?.createdAt);
  const writtenAt = time("x-ms-file-last-write-time", source?.writtenAt);
  return {
    changedAt: time("x-ms-file-change-time", source?.changedAt) ?? fileTimeOf(now),
    ...(attributes !== undefined && { attributes }),
    ...(createdAt !== undefined && { createdAt }),
    ...(writtenAt !== undefined && { writtenAt }),
  };
}

/** The attributes that a request sets; undefined: they stay as they are. */
export function attributesIn({ headers }: FileRequest, source?: FileSystemEntry): FileAttributes | undefined {
  const value = headers["x-ms-file-attributes"];
  if (value === undefined || isWord(value, "preserve")) return undefined;
  return source !== undefined && isWord(value, "source") ? source.attributes : parseAttributes(value);
}

/** With an attribute that all new files, or all directories, have. */
export function withAttribute(patch: Partial<FileSystemEntry>, attribute: FileAttribute): Partial<FileSystemEntry> {
  return { ...patch, attributes: new Set(patch.attributes).add(attribute) };
}

/** The service accepts such words in any case. */
export function isWord(value: string | undefined, word: string): boolean {
  return value?.toLowerCase() === word;
}

function timeIn(value: string | undefined, now: number, ofSource: FileTime | undefined): FileTime | undefined {
  if (value === undefined || isWord(value, "preserve")) return undefined;
  if (isWord(value, "now")) return fileTimeOf(now);
  return ofSource !== undefined && isWord(value, "source") ? ofSource : parseFileTime(value);
}
