/* Runs examples, some at a time, and writes what became of each to a file. It ends when nothing is left of any of them. */
import { writeFileSync } from "node:fs";

const [resultsFile = "", ...files] = process.argv.slice(2);
const results: Record<string, string> = {};
const write = console.error;
console.log = console.warn = console.error = () => undefined;
process.on("unhandledRejection", (error) => {
  write("an example left a promise behind:", error);
  process.exitCode = 1;
});

async function runSome(): Promise<void> {
  for (let file = files.shift(); file; file = files.shift()) {
    results[file] = await import(file).then(
      () => "ran",
      (error: unknown) => (error instanceof Error ? `${error.stack}` : String(error)),
    );
  }
}

await Promise.all(Array.from({ length: 6 }, runSome));
writeFileSync(resultsFile, JSON.stringify(results));
