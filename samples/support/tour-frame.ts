/* What comes before and after the samples of the tour. */
import type { Seen } from "./run-samples.js";
import { say } from "./narrator.js";
import type { Sample } from "./sample.js";
import { paint, print, width, wrap } from "./screen.js";

export function welcome(samples: readonly Sample[]): void {
  const where = process.env["AZURE_STORAGE_CONNECTION_STRING"] ? "the account of AZURE_STORAGE_CONNECTION_STRING" : "an Azurite that is started for it";
  print();
  print(paint("bold", `A tour of azure-storage-concurrency: ${samples.length} scenes, on ${where}`));
  const text = "Each scene is a file in samples/, and checks what it promises. The helper that does it is on the right. Ctrl-C ends the tour.";
  for (const line of wrap(text, width)) print(paint("dim", line));
}

export function summarize(seen: readonly Seen[], elapsedInMs: number): void {
  say.heading(`What you have seen, in ${inSeconds(elapsedInMs)}`);
  const names = Math.max(...seen.map(({ sample }) => sample.name.length));
  for (const { sample, outcome, elapsedInMs: own } of seen) {
    const room = width - names - 15;
    const text = outcome.length > room ? `${outcome.slice(0, room - 3)}...` : outcome;
    print(`   ${sample.name.padEnd(names)}  ${paint("green", text.padEnd(room))}  ${paint("dim", inSeconds(own).padStart(6))}`);
  }

  say.heading("Where to go from here");
  const sections = new Set(seen.map(({ sample }) => sample.section));
  print("   README.md, \"Choosing a helper\"; then the pages on what you have seen:");
  for (const section of sections) {
    const names = seen.filter(({ sample }) => sample.section === section).map(({ sample }) => sample.name);
    print(`   - ${section}: ${names.join(", ")}`);
  }
  print(`   One scene again: npm start -- ${seen.at(-1)?.sample.name ?? "<name>"}     All names: npm start -- --list`);
}

function inSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
