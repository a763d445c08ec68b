/* The voice of the samples. Each kind of line has a sign of its own, so that it can be told without colours. */
import { isTerminal, paint, print, width, wrap } from "./screen.js";
import type { Colour } from "./screen.js";

const signs = isTerminal ? { step: "•", trouble: "!", result: "✓", rule: "─" } : { step: "-", trouble: "!", result: "ok", rule: "-" };

export const say = {
  /** A heading over the whole width, with a remark at its end. */
  heading: (text: string, remark = ""): void => {
    const rule = signs.rule.repeat(Math.max(3, width - text.length - remark.length - (remark === "" ? 1 : 2)));
    print();
    print(`${paint("bold", text)} ${paint("dim", rule)} ${paint("cyan", remark)}`.trimEnd());
  },
  /** What will happen, or why it matters. */
  text: (text: string): void => tell("", text, "dim"),
  /** What happens. */
  step: (text: string): void => tell(signs.step, text),
  /** What goes wrong, or would without the helper. */
  trouble: (text: string): void => tell(signs.trouble, text, "yellow"),
  /** What came of it. */
  result: (text: string): void => tell(signs.result, text, "green"),
};

function tell(sign: string, text: string, colour?: Colour): void {
  const paintIt = (line: string): string => (colour ? paint(colour, line) : line);
  for (const [index, line] of wrap(text, width - 6).entries()) print(paintIt(`   ${(index === 0 ? sign : "").padEnd(3)}${line}`));
}
