import { legend } from "../charts/legend.js";
import { lineChart } from "../charts/line-chart.js";
import type { Line, LineChart } from "../charts/line-chart.js";
import { picture } from "../charts/svg.js";
import type { Colour } from "../charts/svg.js";
import type { Measurement } from "./measurement.js";

const size = { width: 320, height: 270, top: 30 };

/** Throughput, requests and waiting times of one scenario over the number of processes. */
export function plot(measurements: readonly Measurement[], what: string, waiting: string, limit: number): string {
  const variants = [...new Set(measurements.map(({ variant }) => variant))];
  const line = (variant: string, value: (m: Measurement) => number | undefined, dashed = false): Line => ({
    colour: colourOf(variant),
    dashed,
    points: measurements.filter((m) => m.variant === variant).map((m) => [m.processes, value(m) ?? 0] as const),
  });
  const charts: Omit<LineChart, "xLabel">[] = [
    { title: `${what} per second`, lines: variants.map((v) => line(v, (m) => m.perSecond)) },
    {
      title: "requests per second",
      lines: variants.map((v) => line(v, (m) => m.requestsPerSecond)),
      limit: { label: `limit: ${limit.toLocaleString("en-US")}`, at: limit },
    },
    {
      title: `${waiting}, ms (dashed: p99)`,
      lines: variants.flatMap((v) => [line(v, (m) => m.medianInMs), line(v, (m) => m.p99InMs, true)]),
    },
  ];
  return picture(
    charts.length * size.width,
    size.top + size.height,
    `${what} with 4 to 10,000 processes`,
    legend(variants.map((variant) => [colourOf(variant), variant] as const), 8, 8),
    ...charts.map((chart, at) => lineChart({ ...chart, xLabel: "processes" }, { left: at * size.width, ...size })),
  );
}

function colourOf(variant: string): Colour {
  if (variant.includes("fair")) return "other";
  return variant.includes("plain SDK") ? "baseline" : "ours";
}
