/* All samples, one after the other: `npm start`. One of them: `npm start -- hot-counter`. */
import { parseArgs } from "node:util";
import { auditLog } from "./audit-log.js";
import { blobOptimistic } from "./blob-optimistic.js";
import { blobPessimistic } from "./blob-pessimistic.js";
import { breakLock } from "./break-lock.js";
import { customerEmail } from "./customer-email.js";
import { customerEvents } from "./customer-events.js";
import { gracefulShutdown } from "./graceful-shutdown.js";
import { hotCounter } from "./hot-counter.js";
import { idempotentRequests } from "./idempotent-requests.js";
import { leaderElection } from "./leader-election.js";
import { liveConfiguration } from "./live-configuration.js";
import { lostResponse } from "./lost-response.js";
import { orderChain } from "./order-chain.js";
import { orderConsumer } from "./order-consumer.js";
import { orderNumbers } from "./order-numbers.js";
import { orderOutbox } from "./order-outbox.js";
import { poisonAndRedrive } from "./poison-and-redrive.js";
import { recalculation } from "./recalculation.js";
import { scheduledJobs } from "./scheduled-jobs.js";
import { semaphore } from "./semaphore.js";
import { sharedSettingsFile } from "./shared-settings-file.js";
import { runSamples } from "./support/run-samples.js";
import type { Sample } from "./support/sample.js";
import { print } from "./support/screen.js";
import { summarize, welcome } from "./support/tour-frame.js";
import { tableMaintenance } from "./table-maintenance.js";
import { transfers } from "./transfers.js";
import { workBalancer } from "./work-balancer.js";

const samples: readonly Sample[] = [
  // Optimistic: write only if no other client wrote in between.
  blobOptimistic,
  customerEmail,
  hotCounter,
  lostResponse,
  transfers,
  idempotentRequests,
  auditLog,
  orderNumbers,
  liveConfiguration,
  // Pessimistic: acquire a lease, work, release it.
  blobPessimistic,
  semaphore,
  breakLock,
  recalculation,
  tableMaintenance,
  sharedSettingsFile,
  leaderElection,
  scheduledJobs,
  workBalancer,
  // Queues: delivered at least once, effective exactly once.
  orderConsumer,
  orderChain,
  orderOutbox,
  customerEvents,
  gracefulShutdown,
  poisonAndRedrive,
];

const usage = "npm start [-- --list | <name> ...]";
const { list, names } = readArguments();
if (list) {
  for (const { name, title, helper } of samples) print(`${name.padEnd(22)}${title}  [${helper}]`);
} else {
  const chosen = names.length === 0 ? samples : samples.filter(({ name }) => names.includes(name));
  const started = performance.now();
  if (chosen.length > 1) welcome(chosen);
  const seen = await runSamples(chosen);
  if (chosen.length > 1) summarize(seen, performance.now() - started);
}

function readArguments(): { list: boolean; names: string[] } {
  try {
    const { values, positionals } = parseArgs({ options: { list: { type: "boolean", default: false } }, allowPositionals: true });
    const unknown = positionals.filter((name) => !samples.some((sample) => sample.name === name));
    if (unknown.length > 0) throw new Error(`there is no sample ${unknown.join(", ")}; npm start -- --list names them`);
    return { list: values.list, names: positionals };
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`);
    process.exit(2);
  }
}
