import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";

import { randomFrom } from "../../chaos/random.js";
import { runWorker } from "../../support/worker-process.js";
import { nextCall } from "../client.js";
import { performByHand } from "../hand-written.js";
import type { HistoryEvent } from "../history.js";
import type { Known, Library, ObjectClients } from "../operations.js";
import type { ProcessConfig, Round } from "./jobs.js";

/** One process of a run: works on the objects of each round with several callers, until it is stopped. */
runWorker(async (config: ProcessConfig, parent) => {
  const { connectionString, maxTries } = config;
  const library = (await import(config.library)) as Library;
  const random = randomFrom(config.seed).fork(`process ${config.process}`);
  const waits = { retryDelayInMs: 5, maxRetryDelayInMs: 50 };
  const container = new ContainerClient(connectionString, config.container, { retryOptions: { ...waits, maxTries } });
  const table = TableClient.fromConnectionString(connectionString, config.table, {
    allowInsecureConnection: true,
    retryOptions: { ...waits, maxRetries: maxTries - 1 },
  });
  const clientsOf = ({ kind, name }: Round["objects"][number]): ObjectClients =>
    kind === "blob" ? { kind, blob: container.getBlockBlobClient(name) } : { kind, table, partitionKey: name };

  parent.send("ready");
  for (;;) {
    const round = await parent.receive<Round>();
    const callers = round.objects.flatMap((object) => Array.from({ length: round.callers }, (_, caller) => ({ object, caller })));
    await Promise.all(
      callers.map(async ({ object, caller }) => {
        const process = `${config.process}${"abcdefghijklmnop"[caller] ?? caller}`;
        const client = {
          name: object.name,
          object: clientsOf(object),
          library,
          process,
          random: random.fork(`${object.name} ${caller}`),
          report: (event: HistoryEvent) => send(event),
          ...(config.updatesBy === "library" ? {} : { perform: performByHand }),
        };
        let known: Known | undefined;
        for (let i = 0; i < round.calls; i++) {
          const call = nextCall(client, i, known);
          // It has left this process before the call is made: a kill cannot hide the call.
          await send(call.invoked);
          known = await call.make();
        }
      }),
    );
    parent.send("round done");
  }
});

/** Resolves when the event has left this process. */
function send(event: HistoryEvent): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(event, undefined, {}, (error) => (error ? reject(error) : resolve()));
  });
}
