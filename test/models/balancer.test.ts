import fc from "fast-check";
import { expect, test } from "vitest";
import { BlobLocks, WorkBalancer } from "../../src/index.js";
import type { ShardContext } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const shards = 4;
const durationInSeconds = 15;

/** The model: each shard has one owner at most, each with a larger number than the one before; in the end, all have one. */
class Balancers implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #balancers: WorkBalancer[];
  readonly #running: Promise<unknown>[] = [];
  readonly #cutOff = new Set<number>();
  readonly #owners = new Map<number, { readonly process: number; readonly context: ShardContext }>();
  /** Not thrown where they are found: an error of the work is an event of the balancer. */
  readonly #problems: string[] = [];
  readonly #lastEpochs = new Map<number, number>();

  constructor(world: World) {
    this.world = world;
    this.#processes = Array.from({ length: processes }, () => world.newProcess());
    this.#balancers = this.#processes.map((process, n) => {
      const balancer = new WorkBalancer(new BlobLocks(process.container, { holder: `p${n}` }), "feeds", shards, (context) => this.#own(n, context), { durationInSeconds, drainTimeoutInMs: 5_000 });
      return balancer.on("error", () => undefined);
    });
  }

  start(process: number): void {
    this.#running.push(this.#balancers[process]!.start().catch(() => undefined));
  }

  stop(process: number): void {
    this.#running.push(this.#balancers[process]!.stop());
  }

  shed(process: number): void {
    this.#running.push(this.#balancers[process]!.shed(1));
  }

  cutOff(process: number): void {
    this.#cutOff.add(process);
    this.#processes[process]!.cutOff();
  }

  async finish(): Promise<void> {
    this.world.networkConditions = calm;
    await Promise.all(this.#running);
    await Promise.all(this.#balancers.map((balancer) => balancer.stop()));
    // What the dead hold has to expire, stragglers included.
    await this.world.time.sleep(61_000 + durationInSeconds * 1_000);
    const last = new WorkBalancer(new BlobLocks(this.world.newProcess().container), "feeds", shards, (context) => this.#own(processes, context), { durationInSeconds });
    await last.start();
    await this.world.time.sleep(20_000);
    expect(last.ownedShards).toEqual([0, 1, 2, 3]);
    await last.stop();
    expect(this.#problems).toEqual([]);
    for (const [key] of this.world.blobs.resources) {
      if (key.startsWith("lease of ")) continue;
      expect(this.world.newProcess().blob(key.slice(key.indexOf("/docs/") + 6)).lease.state, key).not.toBe("leased");
    }
  }

  async #own(process: number, context: ShardContext): Promise<void> {
    const { shard, epoch, signal } = context;
    const before = this.#owners.get(shard);
    if (before) this.#problems.push(`process ${process} owns shard ${shard}, which process ${before.process} owns`);
    if (epoch <= (this.#lastEpochs.get(shard) ?? 0)) this.#problems.push(`shard ${shard}: epoch ${epoch} came after ${this.#lastEpochs.get(shard)}`);
    this.#lastEpochs.set(shard, epoch);
    this.#owners.set(shard, { process, context });
    await new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => {
        if (this.#owners.get(shard)?.context === context) this.#owners.delete(shard);
        resolve();
      });
    });
  }
}

abstract class OfProcess extends Step<Balancers> {
  readonly process: number;
  readonly pauseInMs: number;

  constructor([process, pauseInMs]: [number, number]) {
    super();
    this.process = process;
    this.pauseInMs = pauseInMs;
  }
}

class Start extends OfProcess {
  override act(balancers: Balancers): void {
    balancers.start(this.process);
  }
}

class Stop extends OfProcess {
  override act(balancers: Balancers): void {
    balancers.stop(this.process);
  }
}

class Shed extends OfProcess {
  override act(balancers: Balancers): void {
    balancers.shed(this.process);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const drawn = fc.tuple(process_, pauses(20_000));

test("a shard of a balancer has one owner at a time, which is told before another one can own it, and none is lost", { timeout: 300_000 }, async () => {
  await checkModel<Balancers>(
    300,
    [drawn.map((d) => new Start(d)), drawn.map((d) => new Start(d)), drawn.map((d) => new Stop(d)), drawn.map((d) => new Shed(d)), pauses(40_000).map((ms) => new Pause(ms)), process_.map((n) => new CutOff(n))],
    (world) => new Balancers(world),
  );
});
