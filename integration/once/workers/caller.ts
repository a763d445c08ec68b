import { appendFileSync } from "node:fs";

import { isConcurrencyError, Once } from "../../../src/index.js";
import { fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface CallerConfig {
  readonly connectionString: string;
  readonly table: string;
  readonly keys: number;
  readonly claimDurationInMs: number;
  /** How far the clock of this process is ahead. */
  readonly skewInMs: number;
  /** Where runs of functions are recorded: a file outlives the process. */
  readonly log: string;
}

/** What a caller was told: the result of a key. Or without a value: it has begun to run the function of the key. */
export interface CallerReport {
  readonly key: string;
  readonly value?: string;
}

/** Calls each key by `run` and by `runTransaction`, in an order of its own, until it has a result for each. */
runWorker(async ({ connectionString, table, keys, claimDurationInMs, skewInMs, log }: CallerConfig, parent) => {
  const now = Date.now.bind(Date);
  Date.now = () => now() + skewInMs;
  const client = fastTable(connectionString, table);
  const once = new Once(client, { claimDurationInMs });
  const work = Array.from({ length: keys }, (_, i) => `key-${i}`).sort(() => Math.random() - 0.5);
  const record = (entry: object): void => appendFileSync(log, `${JSON.stringify({ ...entry, at: now() })}\n`);
  const callUntilDone = async (key: string): Promise<void> => {
    for (let attempt = 0; attempt < 200; attempt++) {
      try {
        const { value } = await once.run(key, async ({ signal, assertHeld }) => {
          const run = crypto.randomUUID();
          record({ key, run, event: "start" });
          parent.send({ key } satisfies CallerReport);
          await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300));
          // A process that was stopped must notice here, before it acts.
          if (signal.aborted) throw new Error("too late");
          assertHeld();
          record({ key, run, event: "end" });
          return run;
        }, { timeoutInMs: 20_000, fingerprint: key });
        parent.send({ key, value } satisfies CallerReport);
        break;
      } catch (error) {
        if (!isConcurrencyError(error) && (error as Error).message !== "too late" && (error as Error).name !== "RestError") throw error;
      }
    }
    for (let attempt = 0; attempt < 200; attempt++) {
      try {
        const { value } = await once.runTransaction(`tx-${key}`, "bank", async (tx) => {
          const counter = (await tx.get<{ n: number }>("counter"))?.n ?? 0;
          tx.upsert({ rowKey: "counter", n: counter + 1 });
          return String(counter + 1);
        }, { timeoutInMs: 20_000 });
        parent.send({ key: `tx-${key}`, value } satisfies CallerReport);
        return;
      } catch (error) {
        if (!isConcurrencyError(error) && (error as Error).name !== "RestError") throw error;
      }
    }
  };
  // Few at a time: a kill then finds keys in every state.
  await Promise.all([0, 1, 2].map(async (lane) => {
    for (const [i, key] of work.entries()) if (i % 3 === lane) await callUntilDone(key);
  })); // prettier-ignore
});
