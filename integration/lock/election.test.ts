import type { ContainerClient } from "@azure/storage-blob";
import { describe, expect, it, type TestContext } from "vitest";

import { BlobLocks, LeaderElection } from "../../src/index.js";
import { connectionString, containerClient, freshContainer, freshName } from "../support/clients.js";
import { startWorkers, type Worker } from "../support/workers.js";
import type { CandidateConfig, Elected, Reign } from "./workers/candidate.js";

const leaseInMs = 15_000;

interface Candidate {
  readonly worker: Worker<Reign[]>;
  /** Settles when it is elected. */
  elected: Promise<{ candidate: Candidate; epoch: number }>;
}

async function startCandidates(count: number, container: ContainerClient, { onTestFinished }: TestContext): Promise<Candidate[]> {
  const config: CandidateConfig = { connectionString: connectionString(), container: container.containerName };
  const workers = startWorkers<Reign[]>(new URL("./workers/candidate.ts", import.meta.url), Array<CandidateConfig>(count).fill(config), {
    timeoutInMs: 110_000,
  });
  onTestFinished(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
  });
  await Promise.all(workers.map((worker) => worker.receive()));
  return workers.map((worker) => {
    const candidate = { worker } as Candidate;
    listen(candidate);
    return candidate;
  });
}

function listen(candidate: Candidate): void {
  candidate.elected = candidate.worker.receive<Elected>().then(({ epoch }) => ({ candidate, epoch }));
  // A test ends with candidates that were never elected.
  candidate.elected.catch(() => undefined);
}

function nextLeader(candidates: readonly Candidate[]): Promise<{ candidate: Candidate; epoch: number }> {
  return Promise.race(candidates.map(({ elected }) => elected));
}

describe.concurrent("an election of three processes", () => {
  it("never has two leaders by their own signals, also when one of them stands still for longer than its lease", async (test) => {
    const candidates = await startCandidates(3, await freshContainer(), test);
    const first = await nextLeader(candidates);
    first.candidate.worker.signal("SIGSTOP");
    const stoppedAt = Date.now();
    const others = candidates.filter((candidate) => candidate !== first.candidate);
    const second = await nextLeader(others);
    expect(second.epoch).toBeGreaterThan(first.epoch);
    expect(Date.now() - stoppedAt).toBeLessThan(leaseInMs + 2_000);
    first.candidate.worker.signal("SIGCONT");

    // The one that has gone on takes part again, and may be the next.
    listen(first.candidate);
    second.candidate.worker.send("stop");
    const rest = candidates.filter((candidate) => candidate !== second.candidate);
    const third = await nextLeader(rest);
    expect(third.epoch).toBeGreaterThan(second.epoch);
    for (const { worker } of rest) worker.send("stop");

    const reigns = (await Promise.all(candidates.map(({ worker }) => worker.result))).flat().sort((x, y) => x.from - y.from);
    expect(reigns.length).toBeGreaterThanOrEqual(3);
    for (const [at, reign] of reigns.entries()) {
      if (at === 0) continue;
      expect(reign.from).toBeGreaterThanOrEqual(reigns[at - 1]!.to);
      expect(reign.epoch).toBeGreaterThan(reigns[at - 1]!.epoch);
    }
    expect(reigns[0]!.to).toBeLessThanOrEqual(stoppedAt + 100); // what it did until the signal had arrived
  });

  it("has a new leader within a lease's duration and 2 s after the old one was killed", async (test) => {
    const candidates = await startCandidates(2, await freshContainer(), test);
    const first = await nextLeader(candidates);
    await first.candidate.worker.stop();
    const killedAt = performance.now();
    const second = await nextLeader(candidates.filter((candidate) => candidate !== first.candidate));
    expect(performance.now() - killedAt).toBeLessThan(leaseInMs + 2_000);
    expect(second.epoch).toBeGreaterThan(first.epoch);
  });
});

describe.concurrent("an election", () => {
  it("stops the work and waits for it before somebody else leads", async () => {
    const container = await freshContainer();
    const events: string[] = [];
    const candidate = (name: string, work: (signal: AbortSignal) => Promise<void>): LeaderElection =>
      new LeaderElection(new BlobLocks(containerClient(container.containerName), { holder: name }), "scheduler", async ({ signal }) => {
        events.push(`${name} leads`);
        await work(signal);
        events.push(`${name} is done`);
      });
    const until = (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, 300)));
    const a = candidate("a", until);
    let elected!: () => void;
    const bLeads = new Promise<void>((resolve) => (elected = resolve));
    const b = candidate("b", async (signal) => {
      elected();
      await until(signal);
    });
    await a.start();
    for await (const { state, holder, isSelf } of a.observe({ pollIntervalInMs: 20 })) {
      if (!isSelf) continue;
      expect({ state, holder }).toEqual({ state: "leased", holder: "a" });
      break;
    }
    expect(a.isLeader).toBe(true);
    await b.start();
    await a.resign();
    expect(a.isLeader).toBe(false);
    await bLeads;
    await Promise.all([a.stop(), b.stop()]);
    expect(events).toEqual(["a leads", "a is done", "b leads", "b is done"]);
    expect(await new BlobLocks(container).inspect("scheduler")).toMatchObject({ state: "available" });
  });

  it("ends a term whose work awaits its own resignation, and lets another candidate lead while abandoned work still runs", async () => {
    const container = await freshContainer();
    const ended: string[] = [];
    const leads: string[] = [];
    let endWork: (() => void) | undefined;
    const candidate = (name: string, work: () => Promise<void>): LeaderElection =>
      new LeaderElection(new BlobLocks(containerClient(container.containerName), { holder: name }), "scheduler", async () => {
        leads.push(name);
        await work();
      }, { durationInSeconds: 15, drainTimeoutInMs: 200, cooldownInMs: 60_000 })
        .on("ended", ({ reason }) => ended.push(`${name} ${reason}`))
        .on("error", () => undefined);
    const resigning: LeaderElection = candidate("resigning", () => resigning.resign());
    const stubborn = candidate("stubborn", () => new Promise((resolve) => (endWork = resolve)));
    let elected!: () => void;
    const lastLeads = new Promise<void>((resolve) => (elected = resolve));
    const last = candidate("last", async () => elected());
    await resigning.start();
    while (ended.length < 1) await new Promise((resolve) => setTimeout(resolve, 10));
    await stubborn.start();
    while (!stubborn.isLeader) await new Promise((resolve) => setTimeout(resolve, 10));
    await stubborn.resign();
    await last.start();
    await lastLeads;
    expect(leads).toEqual(["resigning", "stubborn", "last"]);
    expect(ended).toEqual(["resigning resigned", "stubborn abandoned"]);
    endWork?.();
    await Promise.all([resigning, stubborn, last].map((election) => election.stop()));
    expect(await new BlobLocks(container).inspect("scheduler")).toMatchObject({ state: "available" });
  });

  it("does not start without the container of its locks", async () => {
    const election = new LeaderElection(new BlobLocks(containerClient(freshName())), "scheduler", () => undefined);
    await expect(election.start()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    expect(election.isRunning).toBe(false);
  });

  it("shows each change of the leader to whoever observes", async () => {
    const container = await freshContainer();
    const watcher = new LeaderElection(new BlobLocks(container), "scheduler", () => undefined);
    let term: number | undefined;
    const locks = new BlobLocks(containerClient(container.containerName), { holder: "them" });
    const leader = new LeaderElection(locks, "scheduler", ({ epoch }) => void (term = epoch));
    const seen: unknown[] = [];
    for await (const { state, holder, epoch, isSelf } of watcher.observe({ pollIntervalInMs: 20 })) {
      seen.push({ state, holder, epoch, isSelf });
      if (seen.length === 1) await leader.start();
      if (state === "leased" && epoch !== undefined) await leader.stop();
      if (seen.length > 1 && state === "available") break;
    }
    expect(seen.at(0)).toEqual({ state: "available", holder: undefined, epoch: undefined, isSelf: false });
    expect(seen.at(-2)).toEqual({ state: "leased", holder: "them", epoch: term, isSelf: false });
    expect(seen.at(-1)).toEqual({ state: "available", holder: "them", epoch: term, isSelf: false });
  });
});
