/** One line of a chart. */
export interface Line {
  /** Undefined: it is not in the legend. */
  readonly label: string | undefined;
  readonly color: string;
  readonly dashed?: boolean;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** A chart with two logarithmic axes. */
export interface Panel {
  readonly title: string;
  readonly lines: readonly Line[];
  /** A level that is drawn across. */
  readonly limit?: { readonly label: string; readonly at: number };
}

const size = { width: 320, height: 300, left: 58, right: 26, top: 34, bottom: 74 };
const plot = { width: size.width - size.left - size.right, height: size.height - size.top - size.bottom };

/** Several charts side by side. Its greys and colours can be read on white and on black. */
export function drawPanels(panels: readonly Panel[], xLabel: string): string {
  const width = panels.length * size.width;
  const drawn = panels.map((panel, at) => `<g transform="translate(${at * size.width} 0)">${drawPanel(panel, xLabel)}</g>`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${size.height}" width="${width}" height="${size.height}" font-family="sans-serif" font-size="11">`,
    `<style>text{fill:#6e7681}.axis{stroke:#6e7681}.grid{stroke:#6e7681;stroke-opacity:.25}@media(prefers-color-scheme:dark){text{fill:#9aa4af}}</style>`,
    ...drawn,
    `</svg>\n`,
  ].join("\n");
}

function drawPanel({ title, lines, limit }: Panel, xLabel: string): string {
  const points = lines.flatMap((line) => line.points).filter(([, y]) => y > 0);
  const x = axis(points.map(([value]) => value), plot.width);
  const y = axis([...points.map(([, value]) => value), ...(limit ? [limit.at] : [])], plot.height);
  const left = (value: number): string => (size.left + x.at(value)).toFixed(1);
  const top = (value: number): string => (size.top + plot.height - y.at(value)).toFixed(1);
  const bottom = size.top + plot.height;
  const right = size.left + plot.width;
  return [
    `<text x="${size.left}" y="18" font-size="13" font-weight="bold">${escaped(title)}</text>`,
    ...y.ticks.map((tick) => `<line class="grid" x1="${size.left}" x2="${right}" y1="${top(tick)}" y2="${top(tick)}"/><text x="${size.left - 6}" y="${top(tick)}" dy="4" text-anchor="end">${short(tick)}</text>`),
    ...x.ticks.map((tick) => `<line class="grid" x1="${left(tick)}" x2="${left(tick)}" y1="${size.top}" y2="${bottom}"/><text x="${left(tick)}" y="${bottom + 15}" text-anchor="middle">${short(tick)}</text>`),
    `<path class="axis" fill="none" d="M${size.left} ${size.top}V${bottom}H${right}"/>`,
    `<text x="${size.left + plot.width / 2}" y="${bottom + 31}" text-anchor="middle">${escaped(xLabel)}</text>`,
    ...(limit ? [`<line stroke="#d1242f" stroke-dasharray="2 3" x1="${size.left}" x2="${right}" y1="${top(limit.at)}" y2="${top(limit.at)}"/><text x="${right}" y="${top(limit.at)}" dy="-4" text-anchor="end" style="fill:#d1242f">${escaped(limit.label)}</text>`] : []),
    ...lines.map((line) => drawLine(line, left, top)),
    ...lines.filter(({ label }) => label !== undefined).map((line, at) => drawLegend(line, at)),
  ].join("\n");
}

function drawLine({ color, dashed, points }: Line, left: (x: number) => string, top: (y: number) => string): string {
  const shown = points.filter(([, y]) => y > 0);
  const dash = dashed ? ` stroke-dasharray="5 4"` : "";
  const path = shown.map(([x, y]) => `${left(x)} ${top(y)}`).join("L");
  const dots = shown.map(([x, y]) => `<circle cx="${left(x)}" cy="${top(y)}" r="2.5" fill="${color}"/>`).join("");
  return shown.length > 0 ? `<path fill="none" stroke="${color}" stroke-width="2"${dash} d="M${path}"/>${dots}` : "";
}

function drawLegend({ label = "", color, dashed }: Line, at: number): string {
  const [x, y] = [size.left - 40 + (at % 2) * 155, size.top + plot.height + 47 + Math.floor(at / 2) * 15];
  const dash = dashed ? ` stroke-dasharray="5 4"` : "";
  return `<line stroke="${color}" stroke-width="2"${dash} x1="${x}" x2="${x + 18}" y1="${y}" y2="${y}"/><text x="${x + 23}" y="${y + 4}">${escaped(label)}</text>`;
}

/** A logarithmic axis over whole powers of ten. */
function axis(values: readonly number[], length: number): { at: (value: number) => number; ticks: number[] } {
  const from = Math.floor(Math.log10(Math.min(...values)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...values))));
  return {
    at: (value) => ((Math.log10(value) - from) / (to - from)) * length,
    ticks: Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)),
  };
}

function short(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 3 });
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
