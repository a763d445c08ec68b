import { fileTimeOf } from "./file-time.js";
import type { FileShareClock } from "./server-clock.js";
import { StorageFault } from "./storage-fault.js";
import type { Share, Stamped } from "./tree.js";

const ticksAt1970 = 621_355_968_000_000_000n;

/** A share is being deleted for at least 30 seconds. */
const deletionInMs = 30_000;

/** The state of the server: the shares, the clock, and the ETags and times of changes. */
export class FileShareState {
  readonly clock: FileShareClock;
  readonly shares: Map<string, Share> = new Map<string, Share>();
  readonly #deletedAt = new Map<string, number>();
  #lastTicks = 0n;

  constructor(clock: FileShareClock) {
    this.clock = clock;
  }

  share(name: string): Share {
    const share = this.shares.get(name);
    if (!share) throw new StorageFault("ShareNotFound");
    return share;
  }

  deleteShare(name: string): void {
    this.shares.delete(name);
    this.#deletedAt.set(name, this.clock.now());
  }

  /** The share was deleted so recently that the service would still be deleting it. */
  isBeingDeleted(name: string): boolean {
    return !this.shares.has(name) && this.clock.now() < (this.#deletedAt.get(name) ?? -Infinity) + deletionInMs;
  }

  /** A new ETag and its time. Every change gets a unique ETag, even within one tick. */
  stamp(): Pick<Stamped, "etag" | "lastModified"> {
    const now = this.clock.now();
    const ticks = ticksAt1970 + fileTimeOf(now);
    this.#lastTicks = ticks > this.#lastTicks ? ticks : this.#lastTicks + 1n;
    return { etag: `"0x${this.#lastTicks.toString(16).toUpperCase()}"`, lastModified: now };
  }

  /** Sets a new ETag and time after a change. */
  touch(changed: Stamped): void {
    Object.assign(changed, this.stamp());
  }
}
