import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import type { BlobLocks } from "./blob-locks.js";

/** A place in the line expires this soon after its process has died. Until then the others look for slots now and then. */
const durationInSeconds = 15;

/** The name of the lock whose holder is the next process to get a slot. Those of the slots end with a number. */
function lineOf(semaphore: string): string {
  return `${semaphore}/line`;
}

/** The place of this process. `isLost`: there is no point in waiting for its turn, or it is over. */
interface Place {
  readonly leaves: AbortController;
  turn?: { readonly lock: LockHandleImpl; readonly clock: Clock };
  isLost?: boolean;
}

/**
 * The line of the processes that have waited for a slot for long. It is a named lock, whose waiters have tickets: its holder polls for
 * slots most often. Without it, processes would get the slots by chance, and one of them could have none for a long time.
 */
export class SlotLine {
  readonly #name: string;
  readonly #onTurn: () => void;
  #place: Place | undefined;
  /** Places of this process that have become needless. */
  readonly #passing = new Set<Place>();

  /** @param onTurn - Called when this process comes first. */
  constructor(semaphore: string, onTurn: () => void) {
    this.#name = lineOf(semaphore);
    this.#onTurn = onTurn;
  }

  /** Whether this process stands in line, and is not the first. */
  get isBehind(): boolean {
    return this.#place !== undefined && !this.#place.turn && !this.#place.isLost;
  }

  /** For how long this process has been the first in line; undefined if it is not. */
  get firstForInMs(): number | undefined {
    const turn = this.#place?.turn;
    return turn?.lock.isHeld() ? turn.clock() : undefined;
  }

  /** Not awaited: the line decides who polls more often, never who has a slot. */
  enter(locks: BlobLocks): void {
    // Its lease was broken, or has expired while this process was paused: another process comes first now.
    if (this.#place?.turn?.lock.loss) this.pass();
    if (!this.#place) void this.#wait(locks, (this.#place = { leaves: new AbortController() }));
  }

  /**
   * This process has a slot. If it was not its turn yet, it lets its turn pass when it comes: that costs the others a hand-over, and a
   * place that is given up before costs them the time after which its process counts as dead.
   */
  pass(): void {
    const place = this.#place;
    this.#place = undefined;
    if (place?.turn) void place.turn.lock[Symbol.asyncDispose]();
    else if (place) this.#passing.add(place);
  }

  /** No caller of this process waits any more. */
  leave(): void {
    this.pass();
    for (const { leaves } of this.#passing) leaves.abort();
    this.#passing.clear();
  }

  /** Never rejects. */
  async #wait(locks: BlobLocks, place: Place): Promise<void> {
    try {
      const lock = await locks.acquireInLine(this.#name, { durationInSeconds, waitInMs: Infinity, abortSignal: place.leaves.signal });
      this.#passing.delete(place);
      if (this.#place !== place) {
        await lock[Symbol.asyncDispose]();
        return;
      }
      place.turn = { lock, clock: startStopwatch() };
      this.#onTurn();
    } catch (error) {
      this.#passing.delete(place);
      // For example a client that may not append to a blob: it gets a slot by chance.
      place.isLost = true;
      if (!place.leaves.signal.aborted) logger.verbose(`${this.#name}: ${errorLabel(error)}`);
    }
  }
}
