/* Runs the examples, six at a time, and writes the result of each to a file. The process ends when no example keeps it alive. */
import { writeFileSync } from "node:fs";

const [resultsFile = "", ...files] = process.argv.slice(2);
const results: Record<string, string> = {};
const write = console.error;
console.log = console.warn = console.error = () => undefined;
process.on("unhandledRejection", (error) => {
  write("An example left an unhandled rejection:", error);
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
