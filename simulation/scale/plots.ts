import { drawPanels } from "./chart.js";
import type { Line, Panel } from "./chart.js";
import type { Measurement } from "./measurement.js";

const colors = ["#2f81f7", "#db6d28", "#8957e5"];

/** Throughput, requests and waiting times of one scenario over the number of processes. */
export function plot(measurements: readonly Measurement[], what: string, waiting: string, limit: number): string {
  const variants = [...new Set(measurements.map(({ variant }) => variant))];
  const line = (variant: string, value: (m: Measurement) => number | undefined, dashed = false): Line => ({
    label: dashed ? undefined : variant,
    color: colors[variants.indexOf(variant)] ?? "#6e7681",
    dashed,
    points: measurements.filter((m) => m.variant === variant).map((m) => [m.processes, value(m) ?? 0] as const),
  });
  const panels: Panel[] = [
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
  return drawPanels(panels, "processes");
}
