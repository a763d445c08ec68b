/* Three schedulers in three processes; one leads. It is killed, and another takes over when its lease has run out. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Elected {
  name: string;
  epoch: number;
}

export const leaderElection: Sample = {
  title: "Leader election",
  async run(storage) {
    const { containerName } = await storage.container();
    const worker = fileURLToPath(new URL("./workers/scheduler.ts", import.meta.url));
    const terms: Elected[] = [];
    let notice: (() => void) | undefined;
    const candidates = new Map<string, ChildProcess>();
    for (const name of ["Ada", "Grace", "Edsger"]) {
      const child = fork(worker, [storage.connectionString, containerName, name], { execArgv: ["--import", "tsx"] });
      child.on("message", ({ elected }: { elected: number }) => {
        terms.push({ name, epoch: elected });
        notice?.();
      });
      candidates.set(name, child);
    }
    const term = async (count: number): Promise<Elected> => {
      while (terms.length < count) await new Promise<void>((resolve) => (notice = resolve));
      return terms[count - 1]!;
    };

    try {
      const first = await term(1);
      say.step(`${first.name} leads, term ${first.epoch}`);
      const killed = performance.now();
      candidates.get(first.name)?.kill("SIGKILL");
      say.warn(`${first.name} is killed; its lease of 15 s has to run out`);
      const second = await term(2);
      say.result(`${second.name} leads after ${((performance.now() - killed) / 1_000).toFixed(1)} s, term ${second.epoch}`);
    } finally {
      const over = [...candidates.values()].filter((child) => child.exitCode === null && child.signalCode === null);
      await Promise.all(over.map((child) => new Promise((resolve) => child.once("exit", resolve).disconnect())));
    }
  },
};

await runIfStarted(leaderElection, import.meta.url);
