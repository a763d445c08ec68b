/* Twelve feeds are polled by however many workers there are: each feed by one of them. */
import { BlobLocks, WorkBalancer } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

const feeds = 12;

export const workBalancer: Sample = {
  name: "work-balancer",
  title: "Feeds spread over workers",
  helper: "WorkBalancer",
  section: "docs/balancer.md#when-shards-move",
  plan: "One worker polls twelve feeds. A second and a third one join, then one of them leaves.",
  lesson: "Each feed is a lock, so no two workers ever poll the same one. A worker that joins gets its share, and nothing else moves.",
  async run(storage) {
    const container = await storage.container();
    const polledBy = new Map<number, string>();
    let moves = 0;
    const join = async (name: string): Promise<WorkBalancer> => {
      const work = async ({ shard, signal }: { shard: number; signal: AbortSignal }): Promise<void> => {
        check(!polledBy.has(shard), `no other worker polls feed ${shard}`);
        polledBy.set(shard, name);
        moves++;
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        polledBy.delete(shard);
      };
      const worker = new WorkBalancer(new BlobLocks(container, { holder: name }), "feeds", feeds, work, { durationInSeconds: 15, rebalanceIntervalInMs: 200 });
      await worker.start();
      return worker;
    };
    const balanced = async (...workers: WorkBalancer[]): Promise<void> => {
      const before = moves;
      while (polledBy.size < feeds || workers.some(({ ownedShards }) => ownedShards.length !== feeds / workers.length)) await new Promise((resolve) => setTimeout(resolve, 20));
      say.step(`${workers.length} worker(s), feeds each: ${workers.map(({ ownedShards }) => ownedShards.length).join(", ")}; ${moves - before} moved`);
    };

    const ann = await join("ann");
    await balanced(ann);
    const bob = await join("bob");
    await balanced(ann, bob);
    const cleo = await join("cleo");
    await balanced(ann, bob, cleo);
    check(moves === 12 + 6 + 4, "only what a newcomer gets moves");
    await bob.stop();
    await balanced(ann, cleo);
    check(moves === 12 + 6 + 4 + 4, "only what the one that left had moves");
    const owners = await ann.inspect();
    check(owners.every(({ shard, owner }) => owner?.holder === polledBy.get(shard)), "inspect shows who polls each feed");
    await Promise.all([ann.stop(), cleo.stop()]);
    return `${moves} moves for ${feeds} feeds, two joins and a leave`;
  },
};

await runIfStarted(workBalancer, import.meta.url);
