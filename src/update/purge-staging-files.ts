import type { AbortSignalLike, PurgeOptions, PurgeResult } from "../clients/call.js";
import type { DirectoryEntryLike, DirectoryLike, FileCallOptions, FileLike } from "../clients/file.js";
import { throwIfAborted } from "../core/deadline.js";
import { iterate } from "../core/iterate.js";
import { read, request } from "../core/request.js";
import { isInUse, isLeaseConflict, isLeaseTaken, isNotFound, isNotLeased, toConcurrencyError } from "../core/storage-errors.js";
import { logger, redactUrl, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { minStagingAgeInMs, parseStagingName, siblingOf } from "../target/file-requests.js";
import { requireClient } from "../target/target.js";

/** Options of {@link purgeStagingFiles}. */
export interface PurgeStagingFilesOptions extends PurgeOptions {
  /**
   * The minimum time since the last write to what is deleted, by the clock of the service; 600_000 (ten minutes) or more, as the update
   * that writes a newer staging file may still run.
   * @defaultValue 3_600_000 (an hour): an update takes seconds after its last write, even if it is suspended meanwhile
   */
  olderThanInMs?: number | undefined;
  /** Whether subdirectories are searched, too. @defaultValue false: a share may have millions of files */
  recursive?: boolean | undefined;
}

const optionNames: OptionNames<PurgeStagingFilesOptions> = { abortSignal: 1, tracingOptions: 1, olderThanInMs: 1, recursive: 1 };

/** The time for one request, including its re-sends by the SDK, which take 16 s. */
const requestTimeoutInMs = 30_000;
/** A lease that is left is taken over by the next update or purge. */
const releaseTimeoutInMs = 2_000;

/**
 * Deletes the staging files (`<name>.asc-new`, `<name>.asc-new-<12 hex digits>`) of writers that crashed before they renamed them. A
 * staging file that an update may still use is kept: one that is too young, that was changed meanwhile, or that is leased while its
 * target is leased, too. Costs 1 request for every 5,000 entries, 1 for each staging file and 2 more for each that is deleted; 2 more if
 * a dead writer has leased it.
 *
 * @example
 * ```ts
 * const { deleted, kept } = await purgeStagingFiles(share, { recursive: true });
 * ```
 * @param directory - A `ShareDirectoryClient`, or a `ShareClient` for its root directory. Needs the permissions to list, read, write and delete.
 * @throws {@link TargetNotFoundError} if the directory does not exist.
 * @throws {@link OperationTimeoutError} if the service does not respond to a request within 30 seconds.
 * @throws `RestError` if the service rejects a request; what was deleted by then stays deleted.
 */
export async function purgeStagingFiles(
  directory: DirectoryLike | { readonly rootDirectoryClient: DirectoryLike },
  options: PurgeStagingFilesOptions = {},
): Promise<PurgeResult> {
  const given = directory as { readonly rootDirectoryClient?: DirectoryLike | undefined } | null | undefined;
  const root = given?.rootDirectoryClient ?? (directory as DirectoryLike);
  requireClient("purgeStagingFiles", root, "a ShareDirectoryClient or a ShareClient", ["listFilesAndDirectories", "getFileClient", "getDirectoryClient"]);
  const url = redactUrl(root.url);
  return withSpan("purgeStagingFiles", options, async (tracingOptions) => {
    checkOptions("purgeStagingFiles", options, optionNames);
    const { abortSignal, recursive = false } = options;
    if (typeof recursive !== "boolean") throw new TypeError("purgeStagingFiles: recursive must be a boolean.");
    const olderThanInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? 3_600_000, { min: minStagingAgeInMs });
    throwIfAborted(abortSignal);
    const purge = new StagingPurge(olderThanInMs, abortSignal, tracingOptions && { tracingOptions });
    try {
      return await purge.run(root, recursive);
    } catch (error) {
      throw toConcurrencyError(error, url, "");
    }
  }, { targetKind: "file", url });
}

/**
 * Whether a staging file is still in use cannot be read from it alone, and a delete cannot be conditional on its ETag. So the purge
 * leases the file, and deletes it under that lease:
 *
 * | An update | Result |
 * |---|---|
 * | wrote less than `olderThanInMs` ago | the file is too young |
 * | wrote after its age was read | the response to the lease has another ETag: the purge releases the lease |
 * | begins, or continues to write, after the file is leased | the update breaks the lease, and the service rejects the delete |
 * | has leased the file, and is about to rename it | the target is leased by the same writer: the file is kept |
 * | has leased the file, and has lost the lease of the target | its rename would be rejected: the lease on the staging file is broken |
 */
class StagingPurge {
  readonly #olderThanInMs: number;
  readonly #abortSignal: AbortSignalLike | undefined;
  readonly #options: Pick<FileCallOptions, "tracingOptions">;
  #deleted = 0;
  #kept = 0;

  constructor(olderThanInMs: number, abortSignal: AbortSignalLike | undefined, options: Pick<FileCallOptions, "tracingOptions"> = {}) {
    this.#olderThanInMs = olderThanInMs;
    this.#abortSignal = abortSignal;
    this.#options = options;
  }

  async run(root: DirectoryLike, recursive: boolean): Promise<PurgeResult> {
    const directories = [root];
    for (let directory = directories.pop(); directory; directory = directories.pop()) {
      for await (const { kind, name } of this.#entriesOf(directory, directory !== root)) {
        if (kind === "file") await this.#purgeFile(directory, name);
        else if (recursive) directories.push(directory.getDirectoryClient(name));
      }
    }
    return { deleted: this.#deleted, kept: this.#kept };
  }

  /** @param mayBeGone - Another client may have deleted a subdirectory since it was listed. */
  async *#entriesOf(directory: DirectoryLike, mayBeGone: boolean): AsyncGenerator<DirectoryEntryLike, undefined> {
    const open = (abortSignal: AbortSignal): AsyncIterable<DirectoryEntryLike> => directory.listFilesAndDirectories({ ...this.#options, abortSignal });
    try {
      yield* iterate(open, { abortSignal: this.#abortSignal, timeoutInMs: requestTimeoutInMs });
    } catch (error) {
      if (mayBeGone && isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #purgeFile(directory: DirectoryLike, name: string): Promise<void> {
    const parsed = parseStagingName(name);
    if (!parsed) return;
    const staging = directory.getFileClient(name);
    try {
      const { etag, date, lastModified, leaseState } = await this.#send((options) => staging.getProperties(options));
      // Both by the clock of the service: the clock of this machine may be wrong.
      const ageInMs = date && lastModified ? date.getTime() - lastModified.getTime() : -Infinity;
      if (ageInMs < this.#olderThanInMs) return;
      if (leaseState === "leased") {
        // Only a purge leases a file that a single call uses.
        if (!parsed.unique && (await this.#isLeased(siblingOf(staging, parsed.targetName)))) {
          this.#keep(staging, "its target is leased");
          return;
        }
        await this.#breakLease(staging);
      }
      await this.#deleteUnchanged(staging, etag);
    } catch (error) {
      // Another client has renamed or deleted it: it was neither deleted nor kept by this call.
      if (isNotFound(error)) return;
      if (!isLeaseConflict(error) && !isLeaseTaken(error) && !isInUse(error)) throw error;
      this.#keep(staging, "another client uses it");
    }
  }

  /** Deletes the file under a lease, unless it was written since it had this ETag. */
  async #deleteUnchanged(staging: FileLike, etag: string | undefined): Promise<void> {
    const leaseId = crypto.randomUUID();
    const lease = staging.getShareLeaseClient(leaseId);
    let isDeleted = false;
    try {
      // A lease does not change the ETag.
      const leased = await this.#send((options) => lease.acquireLease(-1, options));
      if (etag === undefined || leased.etag !== etag) {
        this.#keep(staging, "it was written meanwhile");
        return;
      }
      await this.#send((options) => staging.delete({ ...options, leaseAccessConditions: { leaseId } }));
      isDeleted = true;
      this.#deleted++;
    } finally {
      // Also if the caller aborts, or a response is lost. An update that finds the lease breaks it.
      if (!isDeleted) await request((abortSignal) => lease.releaseLease({ ...this.#options, abortSignal }), { timeoutInMs: releaseTimeoutInMs });
    }
  }

  async #isLeased(target: FileLike): Promise<boolean> {
    try {
      return (await this.#send((options) => target.getProperties(options))).leaseState === "leased";
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  async #breakLease(staging: FileLike): Promise<void> {
    try {
      await this.#send((options) => staging.getShareLeaseClient().breakLease(options));
    } catch (error) {
      if (!isNotLeased(error)) throw error;
    }
  }

  #keep(staging: FileLike, reason: string): void {
    this.#kept++;
    logger.verbose(`kept the staging file ${redactUrl(staging.url)}: ${reason}`);
  }

  #send<R>(send: (options: FileCallOptions) => Promise<R>): Promise<R> {
    return read((abortSignal) => send({ ...this.#options, abortSignal }), { abortSignal: this.#abortSignal, timeoutInMs: requestTimeoutInMs });
  }
}
