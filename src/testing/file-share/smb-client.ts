import { isLocked, leaseAt } from "./lease-machine.js";
import { closeOpen } from "./smb-opens.js";
import type { FileShareState } from "./state.js";
import { findPlace } from "./tree.js";
import type { FileEntry, SmbAccess, SmbOpen } from "./tree.js";

/** Options of {@link SmbClient.open}. */
export interface SmbOpenOptions {
  /**
   * What the SMB client may do with the file.
   * @defaultValue `["read"]`
   */
  access?: readonly SmbAccess[] | undefined;

  /**
   * What it allows other clients to do meanwhile: its share mode. The response to all other access is 409 SharingViolation.
   * @defaultValue `["read"]`, as editors open a document
   */
  shares?: readonly SmbAccess[] | undefined;
}

/** A file that an SMB client has open. */
export interface SmbHandle extends Disposable {
  /** Locks bytes: the response to requests that read or write any of them is 409 FileLockConflict. */
  lock(offset: number, length: number): void;
  /** Releases all locks of this handle. */
  unlock(): void;
  /**
   * Marks the file for deletion: listings do not contain it any more, the response to every request on it is 409 DeletePending,
   * and it is deleted when the last handle is closed.
   */
  markForDeletion(): void;
  /** Removes the mark: the file exists as before. */
  undelete(): void;
  /** Idempotent. */
  close(): void;
}

/** Simulates an SMB client that has the shares mounted. */
export interface SmbClient {
  /**
   * Opens a file until the handle is closed.
   * @throws `Error` if the file does not exist, or if the lease of a REST client does not allow an SMB client this access.
   */
  open(share: string, path: string, options?: SmbOpenOptions): SmbHandle;

  /**
   * The response to the next `requests` requests for the content or the properties of a file is ClientCacheFlushDelay.
   * @param status - 500 by default, which the SDK itself retries after seconds; or 408, which it does not.
   */
  delayFlush(share: string, path: string, requests: number, status?: 408 | 500): void;
}

export function smbClientOf(state: FileShareState): SmbClient {
  const find = (share: string, path: string): FileEntry => {
    const entry = findPlace(state.share(share), path.split("/").filter(Boolean)).entry;
    if (entry?.type !== "file") throw new Error(`no file ${path} in share ${share}`);
    return entry;
  };
  return {
    open: (share, path, options = {}) => {
      const access = new Set<SmbAccess>(options.access ?? ["read"]);
      const shares = new Set<SmbAccess>(options.shares ?? ["read"]);
      const file = find(share, path);
      if (isLocked(leaseAt(file.lease, state.clock.now())) && (access.has("write") || access.has("delete"))) {
        throw new Error(`${path} is leased: an SMB client can open it for reading only`);
      }
      return openFile(file, { access, shares, locks: [] });
    },
    delayFlush: (share, path, requests, status = 500) => {
      find(share, path).flushDelays = { left: requests, status };
    },
  };
}

function openFile(file: FileEntry, open: SmbOpen): SmbHandle {
  file.opens.add(open);
  const close = (): void => closeOpen(file, open);
  const mark = (pending: boolean): void => {
    if (!file.opens.has(open)) throw new Error("the handle is closed");
    file.deletePending = pending;
  };
  return {
    lock: (offset, length) => open.locks.push({ start: offset, end: offset + length - 1 }),
    unlock: () => {
      open.locks = [];
    },
    markForDeletion: () => mark(true),
    undelete: () => mark(false),
    close,
    [Symbol.dispose]: close,
  };
}
