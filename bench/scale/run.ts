/** Measures what many processes make of one lock, one record and one queue. Writes the results, and their plots. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { World } from "../../test/simulation/storage/world.js";
import type { Measurement } from "./measurement.js";
import { plot } from "./plots.js";
import { measure, published } from "./scenario.js";
import type { Scenario } from "./scenario.js";
import { fairLock, lock, lockBaseline, longHold, longHoldBaseline } from "./scenarios/lock.js";
import { queue, queueBaseline } from "./scenarios/queue.js";
import { record, recordBaseline } from "./scenarios/record.js";

const { values } = parseArgs({
  options: {
    /** Part of a scenario's name: only those. */
    only: { type: "string", default: "" },
    sizes: { type: "string", default: "4,16,100,1000,10000" },
    /** Measures nothing, and draws what was measured before. */
    "plots-only": { type: "boolean", default: false },
    out: { type: "string", default: "docs/scale" },
  },
});

/** On the virtual clock. A crowd takes minutes to settle at a lock; the others are as good as settled after the start. */
function timesFor({ service }: Scenario, processes: number): { warmUpInSeconds: number; seconds: number } {
  if (processes < 10_000) return { warmUpInSeconds: 60, seconds: 60 };
  return service(new World(0)).kind === "blob" ? { warmUpInSeconds: 240, seconds: 60 } : { warmUpInSeconds: 30, seconds: 30 };
}

const scenarios: readonly Scenario[] = [lock, fairLock, lockBaseline, longHold, longHoldBaseline, record, recordBaseline, queue, queueBaseline];
const file = `${values.out}/results.json`;
await mkdir(values.out, { recursive: true });
let results = JSON.parse(await readFile(file, "utf8").catch(() => "[]")) as Measurement[];

if (!values["plots-only"]) {
  for (const scenario of scenarios.filter(({ name }) => name.includes(values.only))) {
    for (const processes of values.sizes.split(",").map(Number)) {
      const result = await measure(scenario, processes, timesFor(scenario, processes));
      console.log(JSON.stringify(result));
      const same = (m: Measurement): boolean => m.scenario === result.scenario && m.variant === result.variant && m.processes === processes;
      results = [...results.filter((m) => !same(m)), result];
      await writeFile(file, `[\n${results.map((m) => `  ${JSON.stringify(m)}`).join(",\n")}\n]\n`);
    }
  }
}

const of = (name: string): Measurement[] => results.filter(({ scenario }) => scenario === name).sort((a, b) => a.processes - b.processes);
await writeFile(`${values.out}/lock.svg`, plot(of(lock.name), "locks had", "wait", published.blob));
await writeFile(`${values.out}/record.svg`, plot(of(record.name), "updates", "time taken", published.table));
await writeFile(`${values.out}/queue.svg`, plot(of(queue.name), "messages", "sent to done", published.queue));
