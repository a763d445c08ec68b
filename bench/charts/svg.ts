/* The little of SVG that the pictures need. */

/** Attributes of an element. */
export type Attributes = Readonly<Record<string, string | number>>;

/** The colours: the same one stands for the same thing in all pictures. */
export type Colour = "ours" | "baseline" | "other";

export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const given = Object.entries(attributes).map(([key, value]) => ` ${key}="${escape(typeof value === "number" ? String(Number(value.toFixed(1))) : value)}"`);
  return children.length === 0 ? `<${name}${given.join("")}/>` : `<${name}${given.join("")}>${children.join("")}</${name}>`;
}

export function text(x: number, y: number, content: string, attributes: Attributes = {}): string {
  return element("text", { x, y, ...attributes }, escape(content));
}

/** A whole picture. Its colours follow the reader's theme; where that is not known, they can be read on both. */
export function picture(width: number, height: number, title: string, ...children: readonly string[]): string {
  return `${element(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
    element("title", {}, escape(title)),
    element("style", {}, style),
    ...children.map((child) => `\n${child}`),
    "\n",
  )}\n`;
}

const style = `
text { font: 12px system-ui, sans-serif; fill: #6e7781; }
.title { font-size: 15px; font-weight: 600; }
.number { font-size: 11px; }
.grid { stroke: #6e7781; stroke-opacity: 0.25; }
.limit { stroke: #d1242f; stroke-dasharray: 2 3; }
.ours { fill: #1a7f6c; stroke: #1a7f6c; }
.baseline { fill: #b35900; stroke: #b35900; }
.other { fill: #8957e5; stroke: #8957e5; }
@media (prefers-color-scheme: dark) {
  text { fill: #adbac7; }
  .ours { fill: #3fc1a5; stroke: #3fc1a5; }
  .baseline { fill: #f0883e; stroke: #f0883e; }
  .other { fill: #b083f0; stroke: #b083f0; }
}
@media (prefers-color-scheme: light) { text { fill: #24292f; } }
.line { fill: none; stroke-width: 2; }
.dashed { stroke-dasharray: 5 4; }
`;

function escape(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
