/**
 * `npm run walk -- [call] [--src FOLDER]`: the files that one call goes through, in the order in which it first enters
 * them, and how often it hops from one to another; see `trace.ts` for what counts. Without a call: a table of all of them.
 * `--src` takes the sources of another checkout, to compare.
 */
import { parseArgs } from "node:util";

import { startAzurite, startFileShareServer } from "../../src/testing.js";
import { calls } from "./calls.js";
import { TracedLibrary } from "./trace.js";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { src: { type: "string" } } });
const [name] = positionals;
const chosen = calls.filter((call) => name === undefined || call.name === name);
if (chosen.length === 0 || positionals.length > 1) {
  console.error(`one call, or none for all: ${calls.map((call) => call.name).join(", ")}`);
  process.exit(2);
}

const traced = await TracedLibrary.load(values.src);
await using azurite = await startAzurite();
await using fileServer = await startFileShareServer();
const storage = { connectionString: azurite.connectionString, fileServer };

if (name === undefined) printRow("call", "files", "hops", "limit");
for (const call of chosen) {
  const { files, hops } = await traced.walk(call, storage);
  if (name === undefined) printRow(call.name, files.length, hops, call.limit ?? "none");
  else console.log([...files, `${files.length} files, ${hops} hops`].join("\n"));
}

function printRow(call: string, ...figures: readonly (string | number)[]): void {
  console.log(call.padEnd(18) + figures.map((figure) => String(figure).padStart(7)).join(""));
}
