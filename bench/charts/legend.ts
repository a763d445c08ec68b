import { element, text } from "./svg.js";
import type { Colour } from "./svg.js";

/** Which colour is what, in one row. */
export function legend(entries: readonly (readonly [colour: Colour, name: string])[], left: number, top: number): string {
  let x = left;
  const drawn = entries.flatMap(([colour, name]) => {
    const at = x;
    x += 44 + name.length * 7;
    return [element("rect", { class: colour, x: at, y: top, width: 14, height: 12 }), text(at + 20, top + 10, name)];
  });
  return element("g", {}, ...drawn);
}
