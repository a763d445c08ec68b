import type { Row } from "./harness.js";
import { barChart, barChartHeight } from "./charts/bar-chart.js";
import type { Bars } from "./charts/bar-chart.js";
import { legend } from "./charts/legend.js";
import { lineChart } from "./charts/line-chart.js";
import type { Line } from "./charts/line-chart.js";
import { picture } from "./charts/svg.js";

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
    "Throughput and requests per operation, this library and equivalent code on the plain SDK",
    legend([["ours", "this library"], ["baseline", "equivalent code on the plain SDK"]], 8, 12),
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
    const line = (side: "ours" | "baseline"): Line => ({
      colour: side === "ours" ? side : "baseline",
      points: grown.flatMap(({ name, requestsPerOp }): [number, number][] => (requestsPerOp ? [[Number(name), requestsPerOp[side]]] : [])),
    });
    return grown.length === 0 ? "" : lineChart({ title: "Requests for each update", xLabel, lines: [line("ours"), line("baseline")] }, { left: (i * width) / 2, top, width: width / 2, height: lineHeight });
  });
}

function labelOf({ bench, name }: Row): string {
  return bench === name ? name : `${bench}: ${name}`.slice(0, 34);
}
