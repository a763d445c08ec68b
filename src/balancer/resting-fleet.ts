/** So many rebalances in a row list the workers only. */
const maxMemberListings = 2;

/**
 * While no worker comes or goes, there is nothing to do, and the list of the workers shows it: with several shards for each worker, it is a
 * fraction of the list of all locks, which every worker would read in every interval.
 *
 * | Change at rest | Noticed |
 * |---|---|
 * | a worker joins, stops, dies, or changes its limit | at the next rebalance: it lists everything then |
 * | a shard of this worker is lost, fails, or is shed | at once, by this worker |
 * | a shard of another worker, which cannot acquire it again | at the third rebalance at the latest |
 */
export class RestingFleet {
  #workers: ReadonlyMap<string, number> | undefined;
  #ownShards = 0;
  #memberListings = 0;

  /** A listing has shown that no worker has anything to do; this one has so many shards. */
  begin(workers: ReadonlyMap<string, number>, ownShards: number): void {
    this.#workers = new Map(workers);
    this.#ownShards = ownShards;
    this.#memberListings = 0;
  }

  end(): void {
    this.#workers = undefined;
  }

  /** Whether the list of the workers is enough for the next rebalance. */
  mayContinue(ownShards: number): boolean {
    return this.#workers !== undefined && ownShards === this.#ownShards && this.#memberListings < maxMemberListings;
  }

  /** Whether they are the same workers, with the same limits: this one among them. */
  continuesWith(workers: ReadonlyMap<string, number>): boolean {
    const before = this.#workers;
    if (before?.size !== workers.size || [...workers].some(([id, limit]) => before.get(id) !== limit)) return false;
    this.#memberListings++;
    return true;
  }
}
