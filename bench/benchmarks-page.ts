import type { Row } from "./harness.js";
import type { Results } from "./results.js";
import { figure, spreadText } from "./row-format.js";

const begin = "<!-- figures: written by npm run bench -->";
const end = "<!-- end of figures -->";

/** docs/benchmarks.md with the table of these results in its place. */
export function withFigures(page: string, results: Results): string {
  const [before, rest] = halves(page, begin);
  const [, after] = halves(rest, end);
  return `${before}${begin}\n${figuresText(results)}\n${end}${after}`;
}

/** What was measured, and which bounds were missed. */
function figuresText({ node, cores, storage, rows }: Results): string {
  const bounded = rows.filter(({ bound }) => bound !== "");
  const missed = bounded.filter(({ met }) => !met);
  return [
    `One run of all benches, with Node ${node.slice(1)} on ${cores} cores, against ${storage} on the same machine:`,
    "",
    "| | library | plain SDK | ratio | requests per operation: library, plain SDK | bound |",
    "|---|---|---|---|---|---|",
    ...bounded.map(line),
    "",
    missed.length === 0
      ? "All bounds were met."
      : `${missed.length} of ${bounded.length} bounds were **missed**: ${missed.map((row) => `${labelOf(row)} (${figure(row.ratio)}x)`).join(", ")}.`,
  ].join("\n");
}

function line(row: Row): string {
  const requests = row.requestsPerOp ? `${figure(row.requestsPerOp.ours)}, ${figure(row.requestsPerOp.baseline)}` : "";
  const cells = [labelOf(row), `${figure(row.ours)} ${row.unit}`, figure(row.baseline), ratioText(row), requests, row.met ? row.bound : `**missed:** ${row.bound}`];
  return `| ${cells.join(" | ")} |`;
}

function ratioText({ ratio, spread }: Row): string {
  return spread ? `${figure(ratio)}x (${spreadText(spread)})` : `${figure(ratio)}x`;
}

function labelOf({ bench, name }: Row): string {
  return bench === name ? name : `${bench}: ${name}`;
}

function halves(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark);
  if (at < 0) throw new Error(`docs/benchmarks.md does not contain ${mark}`);
  return [text.slice(0, at), text.slice(at + mark.length)];
}
