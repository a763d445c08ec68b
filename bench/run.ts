/**
 * `npm run bench -- [names of benches] [--json FILE] [--list] [--quick]`: see docs/benchmarks.md for what the figures mean. A
 * complete run of all of them writes bench/results.json, the table in docs/benchmarks.md and the picture docs/figures.svg.
 */
import { parseArgs } from "node:util";

import { startAzurite } from "azure-storage-concurrency/testing";

import { benches } from "./benches/index.js";
import { toRow } from "./harness.js";
import type { Bench, Row } from "./harness.js";
import { publishResults, resultsOf, writeResults } from "./results.js";
import { headerLines, rowLine } from "./row-format.js";
import { benchEnv } from "./storage.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: "string" }, list: { type: "boolean", default: false }, quick: { type: "boolean", default: false } },
});

if (values.quick) process.env["BENCH_QUICK"] = "1"; // see pace.ts
if (values.list) for (const { name, about } of benches) console.log(`${name.padEnd(24)}${about}`);
else {
  const rows = await runAll(select(positionals));
  const results = resultsOf(rows);
  if (values.json !== undefined) await writeResults(values.json, results);
  if (positionals.length === 0 && !values.quick) await publishResults(results);
  const missed = rows.filter(({ met }) => !met);
  if (missed.length > 0) {
    console.error(`${missed.length} of ${rows.length} figures miss their bounds`);
    process.exitCode = 1;
  }
}

function select(names: readonly string[]): readonly Bench[] {
  const unknown = names.filter((name) => !benches.some((bench) => bench.name === name));
  if (unknown.length > 0) {
    console.error(`no such bench: ${unknown.join(", ")}; --list names them`);
    process.exit(2);
  }
  return names.length === 0 ? benches : benches.filter(({ name }) => names.includes(name));
}

async function runAll(selected: readonly Bench[]): Promise<Row[]> {
  const rows: Row[] = [];
  const azurite = await startAzurite();
  try {
    const env = benchEnv(azurite.connectionString);
    console.log(headerLines);
    for (const bench of selected) {
      for await (const measured of bench.run(env)) {
        const row = toRow(bench.name, measured);
        rows.push(row);
        console.log(rowLine(row));
      }
    }
  } finally {
    await azurite.stop();
  }
  return rows;
}
