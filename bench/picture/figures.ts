import type { Row } from "../harness.js";
import { barChart, barChartHeight } from "./bar-chart.js";
import type { Bars } from "./bar-chart.js";
import { lineChart } from "./line-chart.js";
import { element, picture, text } from "./svg.js";

const width = 900;
const lineHeight = 260;

/** The picture that the README shows: throughput, requests, and how they grow. */
export function figuresPicture(rows: readonly Row[]): string {
  const compared = rows.filter(({ bench, unit }) => unit.endsWith("/s") && !bench.startsWith("growth-"));
  const throughput = compared.map((row): Bars => ({ name: labelOf(row), ours: row.ours, baseline: row.baseline, unit: row.unit }));
  const requests = compared.flatMap((row): Bars[] =>
    row.requestsPerOp ? [{ name: labelOf(row), ...row.requestsPerOp, unit: "" }] : [],
  );
  const barsHeight = barChartHeight(Math.max(throughput.length, requests.length));
  const half = width / 2;
  const height = 40 + barsHeight + lineHeight;
  return picture(
    width,
    height,
    "Throughput and requests per operation, this library beside code written by hand",
    legend(),
    barChart("Operations in a second (log scale)", throughput, 0, 40, half),
    barChart("Requests for each operation (log scale)", requests, half, 40, half),
    ...growthCharts(rows, 40 + barsHeight),
  );
}

function growthCharts(rows: readonly Row[], top: number): string[] {
  const charts = [
    { bench: "growth-writers", xLabel: "writers of one entity in one process" },
    { bench: "growth-processes", xLabel: "processes with 8 writers each" },
  ];
  return charts.map(({ bench, xLabel }, i) => {
    const grown = rows.filter((row) => row.bench === bench);
    const line = (side: "ours" | "baseline"): { name: string; side: "ours" | "baseline"; points: [number, number][] } => ({
      name: side,
      side,
      points: grown.flatMap(({ name, requestsPerOp }): [number, number][] => (requestsPerOp ? [[Number(name), requestsPerOp[side]]] : [])),
    });
    return grown.length === 0 ? "" : lineChart({ title: "Requests for each update", xLabel, series: [line("ours"), line("baseline")] }, (i * width) / 2, top, width / 2, lineHeight);
  });
}

function legend(): string {
  const entry = (x: number, side: string, name: string): string[] => [element("rect", { class: side, x, y: 12, width: 14, height: 12 }), text(x + 20, 22, name)];
  return element("g", {}, ...entry(8, "ours", "this library"), ...entry(130, "baseline", "written by hand on the bare SDK"));
}

function labelOf({ bench, name }: Row): string {
  return bench === name ? name : `${bench}: ${name}`.slice(0, 34);
}
