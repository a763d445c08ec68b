import { logScale, short } from "./log-scale.js";
import { element, text } from "./svg.js";

/** Both sides of one comparison. */
export interface Bars {
  readonly name: string;
  readonly ours: number;
  readonly baseline: number;
  /** Behind the numbers. */
  readonly unit: string;
}

const rowHeight = 40;
const labelWidth = 190;
const numberWidth = 110;

export function barChartHeight(rows: number): number {
  return 44 + rows * rowHeight;
}

/** Two bars for each comparison, on one logarithmic axis. */
export function barChart(title: string, rows: readonly Bars[], left: number, top: number, width: number): string {
  const start = left + labelWidth;
  const x = logScale(rows.flatMap(({ ours, baseline }) => [ours, baseline]), start, left + width - numberWidth);
  return element(
    "g",
    {},
    text(left + 8, top + 20, title, { class: "title" }),
    ...rows.flatMap((row, i) => {
      const y = top + 40 + i * rowHeight;
      const bar = (side: "ours" | "baseline", at: number): string[] => [
        element("rect", { class: side === "ours" ? side : "baseline", x: start, y: at, width: Math.max(2, x.at(row[side]) - start), height: 12 }),
        text(Math.max(start + 2, x.at(row[side])) + 6, at + 10, `${short(row[side])} ${row.unit}`, { class: "number" }),
      ];
      return [text(left + 8, y + 18, row.name), ...bar("ours", y), ...bar("baseline", y + 14)];
    }),
  );
}
