import type { Row } from "./harness.js";

const columns: readonly { title: string; width: number; left?: boolean; text: (row: Row) => string }[] = [
  { title: "bench", width: 48, left: true, text: ({ bench, name }) => (name === bench ? name : `${bench}: ${name}`) },
  { title: "ours", width: 9, text: ({ ours }) => figure(ours) },
  { title: "baseline", width: 9, text: ({ baseline }) => figure(baseline) },
  { title: "unit", width: 10, left: true, text: ({ unit }) => unit },
  { title: "ratio", width: 9, text: ({ ratio }) => `${figure(ratio)}x` },
  { title: "middle half", width: 13, text: ({ spread }) => spreadText(spread) },
  { title: "req/op", width: 7, text: ({ requestsPerOp }) => (requestsPerOp ? figure(requestsPerOp.ours) : "") },
  { title: "baseline", width: 9, text: ({ requestsPerOp }) => (requestsPerOp ? figure(requestsPerOp.baseline) : "") },
  { title: "bound", width: 25, left: true, text: ({ bound }) => bound },
  { title: "met", width: 3, left: true, text: ({ bound, met }) => (bound === "" ? "" : met ? "yes" : "NO") },
];

export const headerLines: string = [line(columns.map(({ title }) => title)), line(columns.map(({ width }) => "-".repeat(width)))].join("\n");

export function rowLine(row: Row): string {
  return line(columns.map(({ text }) => text(row)));
}

function line(cells: readonly string[]): string {
  const padded = columns.map(({ width, left }, at) => (left ? cells[at]?.padEnd(width) : cells[at]?.padStart(width)));
  return `| ${padded.join(" | ")} |`;
}

/** Between the quartiles of the ratio; nothing where a bench has few turns. */
export function spreadText(spread: Row["spread"]): string {
  return spread ? `${figure(spread[0])} to ${figure(spread[1])}` : "";
}

/** Three significant digits, and never an exponent. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "?";
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}
