/* One instance: what its roles need, started in order and stopped in the reverse one. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Outbox } from "azure-storage-concurrency";
import type { QueueConsumer, Schedule } from "azure-storage-concurrency";
import { createApi } from "./api.js";
import { createResources, openClients } from "./clients.js";
import { closingSchedule, listReports } from "./jobs.js";
import { startMetrics } from "./metrics.js";
import { Orders } from "./orders.js";
import { paymentConsumer, receiptConsumer } from "./payments.js";
import type { ServiceSettings } from "./settings.js";

/** Orchestrators end a process 30 seconds after they have asked for it. */
const drainTimeoutInMs = 20_000;

export interface Service {
  readonly url: string;
  /** Lets requests, handlers and jobs finish that have begun, and gives everything else to the other instances. */
  stop(): Promise<void>;
}

export async function startService(settings: ServiceSettings, report: (line: string) => void = console.log): Promise<Service> {
  const clients = openClients(settings);
  await createResources(clients);
  const metrics = startMetrics();
  const { roles } = settings;
  // Each instance relays: what one has committed and not sent when it died, another one sends.
  const outbox = new Outbox(clients.table, { queues: [clients.payments], relayAfterInMs: 5_000, pollIntervalInMs: 2_000, drainTimeoutInMs });
  const consumers: readonly QueueConsumer[] = roles.includes("payments") ? [paymentConsumer(clients), receiptConsumer(clients)] : [];
  const schedule: Schedule | undefined = roles.includes("jobs") ? closingSchedule(clients, settings) : undefined;
  const reportError = (error: unknown): void => report(`${settings.instance}: ${error instanceof Error ? error.message : String(error)}`);
  outbox.on("error", reportError);
  schedule?.on("error", reportError);
  for (const consumer of consumers) consumer.on("error", reportError);

  let isStopping = false;
  const server = createApi({
    orders: roles.includes("api") ? new Orders(clients, outbox) : undefined,
    readiness: () => {
      const queues = consumers.map((consumer) => consumer.health());
      const isReady = !isStopping && queues.every(({ isRunning, isPaused }) => isRunning && !isPaused);
      return { isReady, details: { instance: settings.instance, roles, stopping: isStopping, handling: queues.reduce((sum, { inFlight }) => sum + inFlight, 0) } };
    },
    reports: () => listReports(clients.table),
    writeMetrics: metrics.write,
  });
  await Promise.all([outbox.start(), schedule?.start(), ...consumers.map((consumer) => consumer.start())]);
  server.listen(settings.port, "127.0.0.1");
  await once(server, "listening");

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      isStopping = true;
      await closeServer(server);
      await Promise.all([schedule?.stop({ drainTimeoutInMs }), ...consumers.map((consumer) => consumer.stop({ drainTimeoutInMs }))]);
      // Last: what was committed meanwhile is sent.
      await outbox.stop({ drainTimeoutInMs: 5_000 });
      await metrics.stop();
    },
  };
}

/** Responds to the requests that have arrived, and accepts no more. */
async function closeServer(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  const hurry = setTimeout(() => server.closeAllConnections(), 5_000);
  await closed;
  clearTimeout(hurry);
}
