import { InvalidArgumentError } from "commander";
import { printable } from "../errors.js";
import { jsonText } from "./terminal.js";
import type { Terminal } from "./terminal.js";

/** The value of a cell; a missing one is shown as a dash. */
export type Cell = string | number | Date | undefined;

/** Where and how a result is printed. */
export interface Printing {
  readonly terminal: Terminal;
  readonly json: boolean;
}

/** Prints items as a table or as a JSON array. `emptyMessage` is printed instead of a table without rows. */
export function printRows<T extends object>(
  { terminal, json }: Printing,
  items: readonly T[],
  columns: Readonly<Record<string, (item: T) => Cell>>,
  emptyMessage: string,
): void {
  if (json) printJson(terminal, items);
  else if (items.length === 0) terminal.out(`${emptyMessage}\n`);
  else terminal.out(tableOf(items, columns));
}

function tableOf<T>(items: readonly T[], columns: Readonly<Record<string, (item: T) => Cell>>): string {
  const lines = [
    Object.keys(columns).map((title) => title.toUpperCase()),
    ...items.map((item) => Object.values(columns).map((cell) => show(cell(item)))),
  ];
  // One by one: a call cannot have as many arguments as there may be rows.
  const widths = Object.keys(columns).map((_, i) => lines.reduce((width, line) => Math.max(width, widthOf(line[i] ?? "")), 0));
  const padded = (cell: string, i: number): string => cell + " ".repeat((widths[i] ?? 0) - widthOf(cell));
  return lines.map((line) => `${line.map(padded).join("  ").trimEnd()}\n`).join("");
}

/** Prints the properties of one item as lines or as a JSON object. */
export function printProperties({ terminal, json }: Printing, properties: Readonly<Record<string, Cell>>): void {
  if (json) {
    printJson(terminal, properties);
    return;
  }
  const width = Math.max(...Object.keys(properties).map((name) => name.length));
  for (const [name, value] of Object.entries(properties)) terminal.out(`${name.padEnd(width)}  ${show(value)}\n`);
}

/** Prints the outcome of a command as a sentence or as a JSON object. */
export function printOutcome({ terminal, json }: Printing, sentence: string, details: object): void {
  if (json) printJson(terminal, details);
  else terminal.out(`${printable(sentence)}\n`);
}

/** A number of things, with a verb if there is one: `1 message was`, `2 messages were`. */
export function counted(count: number, noun: string, singular: string = "", plural: string = singular): string {
  return `${count} ${noun}${count === 1 ? "" : "s"} ${count === 1 ? singular : plural}`.trimEnd();
}

/** How long ago, in the most suitable unit. */
export function ago(date: Date | undefined, now: Date = new Date()): string | undefined {
  if (!date) return undefined;
  const seconds = Math.max(0, Math.round((now.getTime() - date.getTime()) / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

/** Any text as one line of limited length. */
export function oneLine(text: string | undefined, limit: number = 60): string | undefined {
  if (text === undefined) return undefined;
  // A letter may have any number of accents: not more than a few of them, and not all of a long text.
  const chars = charsOf(printable(text.slice(0, limit * 8))).map((char) => char.slice(0, 16));
  return chars.length <= limit ? chars.join("") : `${chars.slice(0, limit - 1).join("")}…`;
}

const segmenter = new Intl.Segmenter();

function charsOf(text: string): string[] {
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Most cells are ASCII, and there may be a hundred thousand of them. */
function widthOf(text: string): number {
  return /^[ -~]*$/.test(text) ? text.length : charsOf(text).length;
}

function printJson(terminal: Terminal, value: unknown): void {
  terminal.out(`${jsonText(value)}\n`);
}

function show(cell: Cell): string {
  if (cell === undefined || cell === "") return "-";
  return printable(cell instanceof Date ? cell.toISOString() : String(cell));
}

/** A parser for options that are whole numbers. */
export function wholeNumber(min: number, max: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (text.trim() === "" || !Number.isSafeInteger(number) || number < min || number > max) {
      throw new InvalidArgumentError(`It must be a whole number, ${max === Number.MAX_SAFE_INTEGER ? `${min} or more` : `${min} to ${max}`}.`);
    }
    return number;
  };
}
