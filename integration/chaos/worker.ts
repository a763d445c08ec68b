/* One process of a chaos run: works on all scenarios at once until it is told to finish, or killed. */
import { setTimeout as sleep } from "node:timers/promises";

import { ContainerClient } from "@azure/storage-blob";

import { machineTime } from "./claims.js";
import { Gate } from "./gate.js";
import type { Assignment, Order, Report } from "./messages.js";
import { randomFrom } from "./random.js";
import type { Library, Scenario } from "./scenario.js";
import { scenarios as allScenarios } from "./scenarios/index.js";
import { openStorage } from "./storage.js";
import { beatInMs, recoveryLimitInMs, TaskPlace, Uncertain } from "./task-place.js";
import { useWrongWallClock } from "./wall-clock.js";

const assignment = JSON.parse(process.argv[2] ?? "") as Assignment;
const setClockBy = useWrongWallClock(assignment.clockOffsetInMs);
const library = (await import(assignment.library)) as Library;
const storage = openStorage(assignment.connectionString, assignment.storage);
const random = randomFrom(assignment.seed).fork(assignment.worker);
const scenarios = allScenarios.filter(({ name }) => assignment.scenarios.includes(name));

const calm = new AbortController();
const stop = new AbortController();
process.on("message", (order: Order) => {
  if (typeof order === "object") setClockBy(order.setClockBy);
  else calm.abort();
  if (order === "stop") stop.abort();
});
// Nobody waits for this process any more.
process.once("disconnect", () => process.exit(1));

/** Resolves when it is on its way to the supervisor, so that a kill after that cannot take it back. */
function tell(report: Report): Promise<void> {
  return new Promise((resolve, reject) => {
    if (process.send) process.send(report, undefined, {}, (error) => (error ? reject(error) : resolve()));
    else resolve();
  });
}

/** Not at once, not all workers at the same time, and not always in the scenario that comes along most often. */
const fainting = ["locks", "table lock", "table lock", "settings file", "leases", "idempotent calls", "scheduled jobs"].filter((name) => assignment.scenarios.includes(name));
const drawFaint = (from: number, to: number): { from: number; in: string | undefined } => ({ from: machineTime() + random.between(from, to), in: fainting[random.between(0, fainting.length - 1)] });
let nextFaint = drawFaint(1_000, 8_000);

/** Right here, for longer than a lease of 15 s lasts, or for ever. */
async function mayFaint(scenario: Scenario): Promise<void> {
  if (calm.signal.aborted || scenario.name !== nextFaint.in || machineTime() < nextFaint.from) return;
  nextFaint = drawFaint(20_000, 30_000);
  await tell(random.next() < 0.4 ? { kind: "die" } : { kind: "faint", forInMs: random.between(16_000, 18_000) });
  process.kill(process.pid, "SIGSTOP");
}

const gate = new Gate();
const places = scenarios.flatMap((scenario) =>
  Array.from({ length: scenario.tasks }, (_, index) => new TaskPlace(scenario, index, { tell, calm: calm.signal, stop: stop.signal, mayFaint: () => mayFaint(scenario), gate })),
);

/** An operation without an outcome ends a task, since its count is not certain any more; another one takes its place. */
async function keepWorking(place: TaskPlace): Promise<void> {
  const { scenario, index } = place;
  for (let generation = 0; !place.finish.aborted; generation++) {
    const id = `${assignment.worker}.${generation}/${index}`;
    try {
      await scenario.work(place.task(id, { library, storage, random: random.fork(`${scenario.name} ${id}`) }));
    } catch (error) {
      if (!(error instanceof Uncertain)) throw error;
      await sleep(20);
    }
  }
}

/** A clock of the parts of a second in which this process ran and the storage responded: neither a stop nor a busy machine moves it on. */
async function beat(): Promise<void> {
  const container = new ContainerClient(assignment.directly, assignment.storage.container);
  for (let calmForInMs = 0, hasRecovered = false; ; ) {
    await sleep(beatInMs);
    const asked = machineTime();
    const responded = await container.getProperties({ abortSignal: AbortSignal.timeout(5_000) }).then(() => true, () => false);
    gate.observe(machineTime() - asked);
    if (!responded) continue;
    await tell({ kind: "beat" });
    if (!calm.signal.aborted) continue;
    calmForInMs += beatInMs;
    if (calmForInMs > recoveryLimitInMs) for (const place of places) await place.giveUp();
    if (!hasRecovered && places.every((place) => place.hasRecovered)) {
      hasRecovered = true;
      await tell({ kind: "recovered" });
    }
  }
}

void beat().catch(() => process.exit(1));
await Promise.all(places.map(keepWorking));
process.exit(0);
