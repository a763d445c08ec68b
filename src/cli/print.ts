import { InvalidArgumentError } from "commander";
import type { Terminal } from "./terminal.js";

/** What a cell may hold; a missing one is shown as a dash. */
export type Cell = string | number | Date | undefined;

/** How a result is shown. */
export interface Printing {
  readonly terminal: Terminal;
  readonly json: boolean;
}

/** Things of one kind: a table for people, or a JSON array. `nothing` is what people read if there are none. */
export function printRows<T extends object>(
  { terminal, json }: Printing,
  items: readonly T[],
  columns: Readonly<Record<string, (item: T) => Cell>>,
  nothing: string,
): void {
  if (json) printJson(terminal, items);
  else if (items.length === 0) terminal.out(`${nothing}\n`);
  else terminal.out(tableOf(items, columns));
}

function tableOf<T>(items: readonly T[], columns: Readonly<Record<string, (item: T) => Cell>>): string {
  const lines = [
    Object.keys(columns).map((title) => title.toUpperCase()),
    ...items.map((item) => Object.values(columns).map((cell) => show(cell(item)))),
  ];
  const widths = Object.keys(columns).map((_, i) => Math.max(...lines.map((line) => charsOf(line[i] ?? "").length)));
  const padded = (cell: string, i: number): string => cell + " ".repeat((widths[i] ?? 0) - charsOf(cell).length);
  return lines.map((line) => `${line.map(padded).join("  ").trimEnd()}\n`).join("");
}

/** The facts of one thing: a line each for people, or a JSON object. */
export function printFacts({ terminal, json }: Printing, facts: Readonly<Record<string, Cell>>): void {
  if (json) {
    printJson(terminal, facts);
    return;
  }
  const width = Math.max(...Object.keys(facts).map((name) => name.length));
  for (const [name, value] of Object.entries(facts)) terminal.out(`${name.padEnd(width)}  ${show(value)}\n`);
}

/** What was done: a sentence for people, or a JSON object. */
export function printOutcome({ terminal, json }: Printing, sentence: string, facts: object): void {
  if (json) printJson(terminal, facts);
  else terminal.out(`${sentence}\n`);
}

/** How long ago, in the one unit that says enough. */
export function ago(date: Date | undefined, now: Date = new Date()): string | undefined {
  if (!date) return undefined;
  const seconds = Math.max(0, Math.round((now.getTime() - date.getTime()) / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

/** Text of any length and kind on one line. */
export function oneLine(text: string | undefined, limit: number = 60): string | undefined {
  if (text === undefined) return undefined;
  const chars = charsOf(printable(text));
  return chars.length <= limit ? chars.join("") : `${chars.slice(0, limit - 1).join("")}…`;
}

function charsOf(text: string): string[] {
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

function printJson(terminal: Terminal, value: unknown): void {
  terminal.out(`${JSON.stringify(value, null, 2)}\n`);
}

function show(cell: Cell): string {
  if (cell === undefined || cell === "") return "-";
  return printable(cell instanceof Date ? cell.toISOString() : String(cell));
}

// What stands in a storage account was written by others: it must not move the cursor or colour the screen.
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ");
}

/** A parser of options that are whole numbers. */
export function wholeNumber(min: number, max: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (text.trim() === "" || !Number.isSafeInteger(number) || number < min || number > max) {
      throw new InvalidArgumentError(`It must be a whole number, ${max === Number.MAX_SAFE_INTEGER ? `${min} or more` : `${min} to ${max}`}.`);
    }
    return number;
  };
}
