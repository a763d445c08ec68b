/* Where the samples print: lines that stay, and on a terminal a few at the bottom that are drawn again in place. */

/** A terminal that understands control sequences. Anything else (a log, a pipe, NO_COLOR) gets plain lines only. */
export const isTerminal: boolean = process.stdout.isTTY && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";

/** Narrow enough to be read with ease, also in a log, which has no width of its own. */
export const width: number = Math.max(50, Math.min(process.stdout.isTTY ? process.stdout.columns - 1 : 90, 90));

let pinned: readonly string[] = [];
let closed = false;

/** Prints a line that stays. */
export function print(line = ""): void {
  if (closed) return;
  const below = pinned;
  pin([]);
  process.stdout.write(`${line}\n`);
  pin(below);
}

/** Replaces the lines at the bottom; none takes them away. Without a terminal there are none. */
export function pin(lines: readonly string[]): void {
  if (closed || !isTerminal || (pinned.length === 0 && lines.length === 0)) return;
  // One write: a terminal that shows every one of them would flicker.
  const back = pinned.length === 0 ? "" : `\u001b[${pinned.length}A\u001b[J`;
  // Too long a line is cut by the terminal: if it went on in the next one, the way back would be longer.
  process.stdout.write(`${back}\u001b[?7l${lines.map((line) => `${line}\n`).join("")}\u001b[?7h`);
  pinned = lines;
}

/** Prints a last line below all others. Whatever still runs is not heard any more. */
export function printLast(line: string): void {
  pinned = [];
  print(line);
  closed = true;
}

export type Colour = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
const codes: Record<Colour, number> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 };

export function paint(colour: Colour, text: string): string {
  return isTerminal && text !== "" ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text;
}

/** Breaks a text into lines of at most `columns` characters. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = word;
    } else {
      line += line === "" ? word : ` ${word}`;
    }
  }
  return [...lines, line];
}
