import type { FileShareClock } from "./server-clock.js";
import { StorageFault } from "./storage-fault.js";
import type { Share, Stamped } from "./tree.js";

const ticksAt1970 = 621_355_968_000_000_000n;

/** The state of the server: the shares, the clock, and the ETags and times of changes. */
export class FileShareState {
  readonly clock: FileShareClock;
  readonly shares: Map<string, Share> = new Map<string, Share>();
  #lastTicks = 0n;

  constructor(clock: FileShareClock) {
    this.clock = clock;
  }

  share(name: string): Share {
    const share = this.shares.get(name);
    if (!share) throw new StorageFault("ShareNotFound");
    return share;
  }

  /** A new ETag and its time. Every change gets a unique ETag, even within one tick. */
  stamp(): Pick<Stamped, "etag" | "lastModified"> {
    const now = this.clock.now();
    const ticks = ticksAt1970 + BigInt(Math.floor(now * 10_000));
    this.#lastTicks = ticks > this.#lastTicks ? ticks : this.#lastTicks + 1n;
    return { etag: `"0x${this.#lastTicks.toString(16).toUpperCase()}"`, lastModified: now };
  }

  /** Sets a new ETag and time after a change. */
  touch(changed: Stamped): void {
    Object.assign(changed, this.stamp());
  }
}
