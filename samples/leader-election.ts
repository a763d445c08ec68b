/* Three schedulers in three processes; one leads. The first leader is killed, the second one leaves in good order. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readTarget } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { patiently } from "./support/progress.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";
import { Timeline } from "./support/timeline.js";
import type { Report, Schedule } from "./workers/scheduler.js";

const names = ["Ada", "Grace", "Edsger"];
const worker = fileURLToPath(new URL("./workers/scheduler.ts", import.meta.url));

export const leaderElection: Sample = {
  name: "leader-election",
  title: "A leader dies, another one takes over",
  helper: "LeaderElection",
  section: "docs/locks.md#leader-election",
  plan: "Three schedulers, each in its own process; only the leader may run the jobs. We kill it with kill -9: it cannot say goodbye, and its lease of 15 s has to run out. The next one may leave in good order.",
  lesson: "There is never more than one leader, and never none for longer than a lease. Each term has a higher number than all before: with it, a leader that only slept is refused as well.",
  async run(storage) {
    const container = await storage.container();
    const schedulers = new Map<string, ChildProcess>();
    let timeline: Timeline | undefined;
    const leaders: string[] = [];
    let onElected: (() => void) | undefined;
    // An epoch is a large number, and the next term has a larger one: the timeline counts the terms.
    const epochs: number[] = [];
    const numberOf = (epoch: number): string => String((epochs.includes(epoch) ? epochs : [...epochs.splice(0), epoch].map((known) => (epochs.push(known), known))).indexOf(epoch) + 1);

    for (const name of names) {
      // The connection string has a key in it: in the arguments of a process everybody on the machine could read it.
      const env = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: storage.connectionString };
      const child = fork(worker, [container.containerName, name], { env, execArgv: ["--import", "tsx"] });
      schedulers.set(name, child);
      child.on("message", (report: Report) => {
        if ("ran" in report) {
          timeline?.mark("jobs", numberOf(report.ran));
          return;
        }
        leaders.push(name);
        // The clock starts with the first leader, not with the start of the processes.
        timeline ??= startTimeline();
        // The lease of the one before is over, or it could not be given to this one.
        for (const before of leaders.slice(0, -1)) timeline.set(before, "gone");
        timeline.set(name, "holds");
        onElected?.();
      });
    }
    /** Who leads when there have been so many terms. */
    const leaderOf = async (terms: number): Promise<string> => {
      while (leaders.length < terms) await new Promise<void>((resolve) => (onElected = resolve));
      return leaders.at(-1)!;
    };

    try {
      await patiently(leaderOf(1), () => "the processes start");
      say.step(`${leaders[0]} leads, and runs a job every half second`);
      await pause(4_000);

      const first = leaders.at(-1)!;
      const killed = performance.now();
      schedulers.get(first)?.kill("SIGKILL");
      timeline?.mark(first, "x");
      timeline?.set(first, "lingers");
      say.trouble(`${first} is killed (x)`);
      const since = (then: number): string => `${((performance.now() - then) / 1_000).toFixed(1)} s`;
      const second = await patiently(leaderOf(leaders.length + 1), () => `${since(killed)}: ${first} is dead, its lease runs on, the others wait`);
      say.step(`${second} leads, ${since(killed)} after the kill: the lease has run out`);
      await pause(2_500);

      const left = performance.now();
      schedulers.get(second)?.send("stop");
      timeline?.mark(second, "o");
      timeline?.set(second, "gone");
      const third = await leaderOf(leaders.length + 1);
      say.step(`${second} stops (o) and gives its lease back: ${third} leads ${since(left)} later`);
      await pause(1_500);
      timeline?.finish();

      const { value } = await readTarget<Schedule>(container.getBlockBlobClient("schedule.json"));
      const terms = value.runs.map(({ term }) => term);
      check(new Set(leaders).size === 3, "each of the three led in its turn");
      check(terms.every((term, index) => index === 0 || term >= terms[index - 1]!), "no job of an old leader comes after one of a new leader");
      return `${value.runs.length} jobs, by ${leaders.join(", then ")}`;
    } finally {
      for (const child of schedulers.values()) await end(child);
    }
  },
};

function startTimeline(): Timeline {
  const timeline = new Timeline([...names, "jobs"], {
    legend: { holds: "leads", lingers: "dead, its lease runs on", waits: "waits" },
    expectedInMs: 20_000,
  });
  for (const name of names) timeline.set(name, "waits");
  return timeline;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

await runIfStarted(leaderElection, import.meta.url);
