import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";

const firstInMs = 5_000;
const maxInMs = 60_000;

/** How long a worker does not acquire the shards again whose work has failed: 5 seconds, and twice as long after each further failure. */
export class ShardCooldowns {
  readonly #failed = new Map<number, { readonly since: Clock; readonly forInMs: number }>();

  /** The work of a shard has failed. */
  begin(shard: number, heldForInMs: number): void {
    const last = this.#failed.get(shard);
    // Work that ran for longer than any cooldown had recovered in between.
    const forInMs = last && heldForInMs < maxInMs ? Math.min(2 * last.forInMs, maxInMs) : firstInMs;
    this.#failed.set(shard, { since: startStopwatch(), forInMs });
  }

  /** The work of a shard has ended otherwise. */
  forget(shard: number): void {
    this.#failed.delete(shard);
  }

  *active(): Generator<number> {
    for (const [shard, { since, forInMs }] of this.#failed) if (since() < forInMs) yield shard;
  }
}
