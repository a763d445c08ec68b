import { execFile } from "node:child_process";
import { promisify } from "node:util";

import type { Bench, Side } from "../harness.js";
import { isQuick } from "../pace.js";

const run = promisify(execFile);

/** Each in a process of its own; the SDK is what the application imports anyway. */
const programs: Readonly<Record<Side, string>> = {
  baseline: 'await import("@azure/storage-blob");',
  ours: 'await import("@azure/storage-blob"); await import("azure-storage-concurrency");',
};

export const importCost: Bench = {
  name: "import-cost",
  about: "a cold import of the SDK for blobs and the library, against the SDK alone",
  async *run() {
    const times: Record<Side, number[]> = { ours: [], baseline: [] };
    const rounds = isQuick() ? 5 : 15;
    for (let round = -2; round < rounds; round++) {
      for (const side of round % 2 === 0 ? (["ours", "baseline"] as const) : (["baseline", "ours"] as const)) {
        const { stdout } = await run(process.execPath, ["--input-type=module", "-e", `const start = performance.now(); ${programs[side]} console.log(performance.now() - start);`]);
        if (round >= 0) times[side].push(Number(stdout));
      }
    }
    const [ours, baseline] = [median(times.ours), median(times.baseline)];
    yield { name: "import-cost", unit: "ms", ours, baseline, bounds: [] };
    yield { name: "more than the SDK", unit: "ms", ours: ours - baseline, baseline, bounds: [{ of: "ours", atMost: 30 }] };
  },
};

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}
