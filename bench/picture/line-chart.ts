import { logScale, short } from "./scale.js";
import { element, text } from "./svg.js";

/** One line of a chart. */
export interface Series {
  readonly name: string;
  /** The class of its colour. */
  readonly side: "ours" | "baseline";
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface LineChart {
  readonly title: string;
  readonly xLabel: string;
  readonly series: readonly Series[];
}

const margin = { top: 44, right: 24, bottom: 48, left: 52 };

/** Lines on two logarithmic axes, in a box of this size. */
export function lineChart(chart: LineChart, left: number, top: number, width: number, height: number): string {
  const points = chart.series.flatMap((series) => series.points);
  const box = { left: left + margin.left, right: left + width - margin.right, top: top + margin.top, bottom: top + height - margin.bottom };
  const x = logScale(points.map(([value]) => value), box.left, box.right);
  const y = logScale(points.map(([, value]) => value), box.bottom, box.top);
  const xs = [...new Set(points.map(([value]) => value))];
  return element(
    "g",
    {},
    text(left + 8, top + 20, chart.title, { class: "title" }),
    ...y.ticks.map((tick) => element("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(tick), y2: y.at(tick) })),
    ...y.ticks.map((tick) => text(box.left - 6, y.at(tick) + 4, short(tick), { "text-anchor": "end", class: "number" })),
    ...xs.map((value) => text(x.at(value), box.bottom + 16, short(value), { "text-anchor": "middle", class: "number" })),
    text((box.left + box.right) / 2, box.bottom + 36, chart.xLabel, { "text-anchor": "middle" }),
    ...chart.series.flatMap(({ side, points: line }) => [
      element("polyline", { class: `${side} line`, points: line.map(([px, py]) => `${x.at(px).toFixed(1)},${y.at(py).toFixed(1)}`).join(" ") }),
      ...line.map(([px, py]) => element("circle", { class: side, cx: x.at(px), cy: y.at(py), r: 3 })),
    ]),
  );
}
