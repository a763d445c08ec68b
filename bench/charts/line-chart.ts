import { logScale, short } from "./log-scale.js";
import { element, text } from "./svg.js";
import type { Colour } from "./svg.js";

/** One line of a chart. What is 0 cannot be shown, and is left out. */
export interface Line {
  readonly colour: Colour;
  readonly dashed?: boolean;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface LineChart {
  readonly title: string;
  readonly xLabel: string;
  readonly lines: readonly Line[];
  /** A level that is drawn across. */
  readonly limit?: { readonly label: string; readonly at: number } | undefined;
}

/** Where it goes. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const margin = { top: 44, right: 24, bottom: 48, left: 58 };

/** Lines on two logarithmic axes. */
export function lineChart({ title, xLabel, lines, limit }: LineChart, box: Box): string {
  const shown = lines.map((line) => ({ ...line, points: line.points.filter(([, y]) => y > 0) }));
  const points = shown.flatMap((line) => line.points);
  const plot = { left: box.left + margin.left, right: box.left + box.width - margin.right, top: box.top + margin.top, bottom: box.top + box.height - margin.bottom };
  const x = logScale(points.map(([value]) => value), plot.left, plot.right);
  const y = logScale([...points.map(([, value]) => value), ...(limit ? [limit.at] : [])], plot.bottom, plot.top);
  const across = (value: number, kind: string): string => element("line", { class: kind, x1: plot.left, x2: plot.right, y1: y.at(value), y2: y.at(value) });
  return element(
    "g",
    {},
    text(box.left + 8, box.top + 20, title, { class: "title" }),
    ...y.ticks.map((tick) => across(tick, "grid")),
    ...y.ticks.map((tick) => text(plot.left - 6, y.at(tick) + 4, short(tick), { "text-anchor": "end", class: "number" })),
    ...[...new Set(points.map(([value]) => value))].map((value) => text(x.at(value), plot.bottom + 16, short(value), { "text-anchor": "middle", class: "number" })),
    text((plot.left + plot.right) / 2, plot.bottom + 36, xLabel, { "text-anchor": "middle" }),
    ...(limit ? [across(limit.at, "limit"), text(plot.right, y.at(limit.at) - 4, limit.label, { "text-anchor": "end", class: "number" })] : []),
    ...shown.flatMap(({ colour, dashed, points: line }) => [
      element("polyline", { class: `${colour} line${dashed ? " dashed" : ""}`, points: line.map(([px, py]) => `${x.at(px).toFixed(1)},${y.at(py).toFixed(1)}`).join(" ") }),
      ...line.map(([px, py]) => element("circle", { class: colour, cx: x.at(px), cy: y.at(py), r: 3 })),
    ]),
  );
}
