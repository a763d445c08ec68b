import { BlobLocks, WorkBalancer } from "../../src/index.js";
import type { World } from "./storage/world.js";
import type { SimProcess } from "./storage/world.js";

/** A worker in a process of its own. */
export interface FleetWorker {
  readonly process: SimProcess;
  readonly balancer: WorkBalancer;
  isDead: boolean;
}

/** Who owns what, by the workers' own knowledge, and how often shards have changed hands. */
export class Fleet {
  readonly world: World;
  readonly workers: FleetWorker[] = [];
  readonly problems: string[] = [];
  /** How often a shard got an owner. */
  moves = 0;
  /** Of workers that are alive. */
  readonly errors: unknown[] = [];
  readonly #shards: number;
  readonly #durationInSeconds: number;
  readonly #owners = new Map<number, { readonly epoch: number; readonly isHeld: () => boolean }>();
  readonly #all: FleetWorker[] = [];

  constructor(world: World, shards: number, durationInSeconds: number) {
    this.world = world;
    this.#shards = shards;
    this.#durationInSeconds = durationInSeconds;
  }

  /** Adds workers, which start within `withinInMs`. */
  add(count: number, withinInMs: number): void {
    for (let n = 0; n < count; n++) {
      const process = this.world.newProcess();
      const balancer = new WorkBalancer(new BlobLocks(process.container), "feeds", this.#shards, (context) => this.#own(context), { durationInSeconds: this.#durationInSeconds });
      const worker: FleetWorker = { process, balancer, isDead: false };
      balancer.on("error", (error) => {
        if (!worker.isDead) this.errors.push(error);
      });
      this.workers.push(worker);
      this.#all.push(worker);
      this.world.time.after(this.world.time.random() * withinInMs, () => void balancer.start());
    }
  }

  /** Cut off from the storage, for good. */
  kill(worker: FleetWorker): void {
    worker.process.cutOff();
    worker.isDead = true;
    this.workers.splice(this.workers.indexOf(worker), 1);
  }

  async stop(worker: FleetWorker): Promise<void> {
    this.workers.splice(this.workers.indexOf(worker), 1);
    await worker.balancer.stop();
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.#all.map(({ balancer }) => balancer.stop({ drainTimeoutInMs: 1_000 })));
  }

  get counts(): number[] {
    return this.workers.map(({ balancer }) => balancer.ownedShards.length);
  }

  get owned(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }

  /** How long it takes until all shards have an owner, and no worker has more than one more than another; undefined: too long. */
  async untilBalanced(limitInMs: number): Promise<number | undefined> {
    const since = this.world.time.now;
    while (this.world.time.now - since <= limitInMs) {
      const { counts } = this;
      if (this.owned === this.#shards && Math.max(...counts) - Math.min(...counts) <= 1) return this.world.time.now - since;
      await this.world.time.sleep(500);
    }
    return undefined;
  }

  #own({ shard, epoch, assertHeld }: { shard: number; epoch: number; assertHeld: () => void }): void {
    this.moves++;
    const before = this.#owners.get(shard);
    if (before?.isHeld()) this.problems.push(`shard ${shard} has two owners: epochs ${before.epoch} and ${epoch}`);
    if (before && before.epoch >= epoch) this.problems.push(`shard ${shard}: epoch ${epoch} came after ${before.epoch}`);
    const isHeld = (): boolean => {
      try {
        assertHeld();
        return true;
      } catch {
        return false;
      }
    };
    this.#owners.set(shard, { epoch, isHeld });
  }
}
