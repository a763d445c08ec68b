import type { TableClient } from "@azure/data-tables";
import { Once } from "azure-storage-concurrency";

import type { Bench, Measured } from "../harness.js";
import { requestsSent } from "../requests.js";

const calls = 150;

interface StoredCall {
  state: string;
  result?: string;
}

type Run = (key: string) => Promise<unknown>;

export const once: Bench = {
  name: "once",
  about: "idempotent calls, against a row that is created before the function runs, and has its result afterwards",
  async *run(env) {
    const [ours, baseline] = [await env.freshTable(), await env.freshTable()];
    const run: Run = (key) => new Once(ours).run(key, () => ({ id: key }));
    const byHand: Run = (key) => callOnce(baseline, key, () => Promise.resolve({ id: key }));
    yield await measure("first calls", run, byHand);
    yield await measure("repetitions", run, byHand);
  },
};

/** The sides take turns, so that neither has the quieter machine. A repetition is by another object: nothing is remembered. */
async function measure(name: string, ours: Run, baseline: Run): Promise<Measured> {
  const times = { ours: 0, baseline: 0 };
  const requests = { ours: 0, baseline: 0 };
  for (let call = 0; call < calls; call++) {
    for (const [side, run] of [["ours", ours], ["baseline", baseline]] as const) {
      const [sent, started] = [requestsSent(), performance.now()];
      await run(`key-${call}`);
      times[side] += performance.now() - started;
      requests[side] += requestsSent() - sent;
    }
  }
  return {
    name,
    unit: "ms/call",
    ours: times.ours / calls,
    baseline: times.baseline / calls,
    requestsPerOp: { ours: requests.ours / calls, baseline: requests.baseline / calls },
    bounds: [{ of: "requests", atMost: 2 }, { of: "ratio", atMost: 1.5 }],
  };
}

/** What services write. A crash blocks the key for good, and a lost response of the create is taken for another call. */
async function callOnce<R>(table: TableClient, key: string, fn: () => Promise<R>): Promise<R> {
  const place = { partitionKey: "calls", rowKey: key };
  try {
    await table.createEntity<StoredCall>({ ...place, state: "running" });
  } catch (error) {
    if ((error as { statusCode?: number }).statusCode !== 409) throw error;
    const { state, result } = await table.getEntity<StoredCall>("calls", key);
    if (state !== "done" || result === undefined) throw new Error("in progress", { cause: error });
    return JSON.parse(result) as R;
  }
  const value = await fn();
  await table.updateEntity<StoredCall>({ ...place, state: "done", result: JSON.stringify(value) }, "Replace");
  return value;
}
