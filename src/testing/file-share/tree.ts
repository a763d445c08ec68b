import type { FileAttributes } from "./file-attributes.js";
import { fileTimeOf } from "./file-time.js";
import type { FileTime } from "./file-time.js";
import { neverLeased } from "./lease-machine.js";
import type { Lease } from "./lease-machine.js";
import { SparseContent } from "./sparse-content.js";
import { StorageFault } from "./storage-fault.js";

/** The common properties of shares, directories and files. `lastModified` is in milliseconds since 1970. */
export interface Stamped {
  etag: string;
  lastModified: number;
  metadata: ReadonlyMap<string, string>;
}

export interface FileSystemEntry extends Stamped {
  name: string;
  parent: DirectoryEntry | undefined;
  readonly id: string;
  attributes: FileAttributes;
  createdAt: FileTime;
  writtenAt: FileTime;
  changedAt: FileTime;
}

export interface DirectoryEntry extends FileSystemEntry {
  readonly type: "directory";
  /** By name in lower case: names are case-preserving and case-insensitive. */
  readonly entries: Map<string, Entry>;
}

export interface FileEntry extends FileSystemEntry {
  readonly type: "file";
  content: SparseContent;
  httpHeaders: ReadonlyMap<string, string>;
  copyHeaders: ReadonlyMap<string, string>;
  lease: Lease;
  /** The opens of SMB clients, as a test requests them. */
  readonly opens: Set<SmbOpen>;
  deletePending: boolean;
  /** How many more requests fail because an SMB client does not flush its cache in time. */
  flushDelays: { left: number; status: number };
}

/** What an SMB client does with a file, or allows other clients to do with it. See {@link SmbClient.open}. */
export type SmbAccess = "read" | "write" | "delete";

/** A file that an SMB client has open. */
export interface SmbOpen {
  readonly access: ReadonlySet<SmbAccess>;
  /** What it lets others do meanwhile. */
  readonly shares: ReadonlySet<SmbAccess>;
  locks: { start: number; end: number }[];
}

export type Entry = DirectoryEntry | FileEntry;

export interface Share extends Stamped {
  readonly name: string;
  readonly root: DirectoryEntry;
  lease: Lease;
  quotaInGiB: number;
  accessTier: string;
  /** When the tier was set, in milliseconds since 1970. */
  accessTierChangedAt: number | undefined;
  /** The XML as it was set. */
  accessPolicy: Buffer | undefined;
}

/** A resolved path: its directory, and the entry with its last name. */
export interface Place {
  readonly share: Share;
  readonly directory: DirectoryEntry;
  readonly name: string;
  readonly entry: Entry | undefined;
}

let ids = 0x6000_0000;

export function newDirectory(name: string, parent: DirectoryEntry | undefined, stamp: Stamped): DirectoryEntry {
  return { ...newEntry(name, parent, stamp), type: "directory", attributes: new Set(["Directory"]), entries: new Map() };
}

export function newFile(name: string, parent: DirectoryEntry, stamp: Stamped, size: number): FileEntry {
  return {
    ...newEntry(name, parent, stamp),
    type: "file",
    attributes: new Set(["Archive"]),
    content: new SparseContent(size),
    httpHeaders: new Map(),
    copyHeaders: new Map(),
    lease: neverLeased,
    opens: new Set(),
    deletePending: false,
    flushDelays: { left: 0, status: 500 },
  };
}

function newEntry(name: string, parent: DirectoryEntry | undefined, stamp: Stamped): Omit<FileSystemEntry, "attributes"> {
  const at = fileTimeOf(stamp.lastModified);
  return { ...stamp, name, parent, id: String(++ids), createdAt: at, writtenAt: at, changedAt: at };
}

export function attach(entry: Entry): void {
  entry.parent?.entries.set(entry.name.toLowerCase(), entry);
}

export function detach(entry: Entry): void {
  const key = entry.name.toLowerCase();
  // An SMB client may close a file that was replaced while it was open: the newer file of that name stays.
  if (entry.parent?.entries.get(key) === entry) entry.parent.entries.delete(key);
}

/** Resolves a path in a share. The last entry may be missing; its parent directories may not. */
export function findPlace(share: Share, path: readonly string[]): Place {
  const name = path.at(-1);
  if (name === undefined) throw new StorageFault("InvalidUri");
  let directory = share.root;
  for (const part of path.slice(0, -1)) {
    const next = directory.entries.get(part.toLowerCase());
    if (next?.type !== "directory") throw new StorageFault("ParentNotFound");
    directory = next;
  }
  return { share, directory, name, entry: directory.entries.get(name.toLowerCase()) };
}

/** The file at a place, for an operation that needs one. */
export function fileAt(place: Place): FileEntry {
  if (!place.entry) throw new StorageFault("ResourceNotFound");
  if (place.entry.type !== "file") throw new StorageFault("ResourceTypeMismatch");
  if (place.entry.deletePending) throw new StorageFault("DeletePending");
  return place.entry;
}
