import { describe, expect, it, onTestFinished } from "vitest";

import { dropResponse, isWrite, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshContainer, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker } from "../support/workers.js";
import type { TakerConfig } from "./workers/taker.js";

/** Not a multiple of what is reported at a time: whoever is killed has ids left that nobody will get. */
const blockSize = 370;

const taker = new URL("./workers/taker.ts", import.meta.url);

/** Takes at least `wanted` ids; the process that does is killed in the midst of it, and another one goes on. */
async function takeWithCrashes(config: TakerConfig, wanted: number): Promise<number[]> {
  const ids: number[] = [];
  for (const until of [wanted / 4, wanted]) {
    const worker = startWorker(taker, config, { timeoutInMs: 230_000 });
    let last = -1;
    const add = (more: readonly number[]): void => {
      // Those of one process increase.
      for (const id of more) {
        expect(id).toBeGreaterThan(last);
        ids.push((last = id));
      }
    };
    try {
      while (ids.length < until) add(await worker.receive<number[]>());
      // At whatever it is doing by then: giving out ids, or reserving more.
      await pause(Math.random() * 50);
    } finally {
      await worker.stop(); // kill -9
    }
    // What it had reported before it died counts as well.
    for (;;) {
      try {
        add(await worker.receive<number[]>());
      } catch {
        break;
      }
    }
  }
  return ids;
}

describe("4 processes that take 10,000 ids each, are killed, and lose a fifth of the answers to their writes", () => {
  it.each(["blob", "entity"] as const)("never get the same id twice, from one %s", async (kind) => {
    const { blobUrl, tableUrl } = azurite();
    const proxy = await startFaultProxy(kind === "blob" ? blobUrl : tableUrl, [dropResponse({ when: isWrite, probability: 0.2 })]);
    onTestFinished(() => proxy.stop());
    const place = kind === "blob" ? { container: (await freshContainer()).containerName } : { table: (await freshTable()).tableName };
    const through = connectionString({ [kind === "blob" ? "blobUrl" : "tableUrl"]: proxy.url });
    const config = { connectionString: through, blockSize, ...place };
    const ids = (await Promise.all(Array.from({ length: 4 }, () => takeWithCrashes(config, 10_000)))).flat();
    expect(ids.length).toBeGreaterThanOrEqual(40_000);
    expect(new Set(ids).size).toBe(ids.length);
    console.log(`${ids.length} ids from one ${kind}: up to ${Math.max(...ids)}, ${proxy.requests} requests, ${proxy.faultCount()} answers lost`);
    expect(Math.max(...ids)).toBeGreaterThan(ids.length);
    // Two requests for a block, and what races and lost answers cost.
    expect(proxy.requests).toBeLessThan((ids.length / blockSize) * 16);
  }, 240_000);
});
