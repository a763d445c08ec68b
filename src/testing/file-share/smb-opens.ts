import { StorageFault } from "./storage-fault.js";
import { detach } from "./tree.js";
import type { FileEntry, SmbAccess, SmbOpen } from "./tree.js";

/** Rejects a REST request that the share mode of an SMB client does not allow. */
export function checkSharing(file: FileEntry, needs: readonly SmbAccess[]): void {
  for (const open of file.opens) {
    if (needs.some((access) => !open.shares.has(access))) throw new StorageFault("SharingViolation");
  }
}

/** Rejects the deletion of a file that an SMB client has open, whatever it shares: a deletion over REST never has to wait for a handle. */
export function checkClosed(file: FileEntry): void {
  if (file.opens.size > 0) throw new StorageFault("SharingViolation");
}

/** A lease opens the file with all access, and allows other clients only to read. */
export function checkLeasable(file: FileEntry): void {
  checkSharing(file, ["read", "write", "delete"]);
  for (const { access } of file.opens) {
    if (access.has("write") || access.has("delete")) throw new StorageFault("SharingViolation");
  }
}

/** Rejects a request on bytes that an SMB client has locked. */
export function checkLocks(file: FileEntry, start: number, end: number): void {
  for (const { locks } of file.opens) {
    if (locks.some((lock) => lock.start <= end && lock.end >= start)) throw new StorageFault("FileLockConflict");
  }
}

/** The data is not available before the SMB client has flushed its cache. */
export function awaitFlush(file: FileEntry): void {
  if (file.flushDelays.left === 0) return;
  file.flushDelays.left--;
  throw new StorageFault("ClientCacheFlushDelay", { status: file.flushDelays.status });
}

/** A file that is marked for deletion is deleted when the last client has closed it. */
export function closeOpen(file: FileEntry, open: SmbOpen): void {
  if (file.opens.delete(open) && file.opens.size === 0 && file.deletePending) detach(file);
}
