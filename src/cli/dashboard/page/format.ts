import { printable } from "../../../errors.js";

/** A duration in its two largest units. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return units(seconds, 60, "min", "s");
  if (seconds < 86_400) return units(Math.floor(seconds / 60), 60, "h", "min");
  return units(Math.floor(seconds / 3_600), 24, "d", "h");
}

function units(count: number, size: number, large: string, small: string): string {
  const rest = count % size;
  return `${Math.floor(count / size)} ${large}${rest === 0 ? "" : ` ${rest} ${small}`}`;
}

/** As short as possible, for a run. */
export function runTime(ms: number | undefined): string {
  if (ms === undefined) return "–";
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : duration(ms);
}

/** How long since a time. */
export function since(iso: string | undefined, now: number): string {
  return iso === undefined ? "–" : duration(now - Date.parse(iso));
}

const number = new Intl.NumberFormat("en");

export function count(value: number, isLowerBound = false): string {
  return `${isLowerBound ? "≥ " : ""}${number.format(value)}`;
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

const dateTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export function localTime(iso: string | undefined): string {
  return iso === undefined ? "–" : dateTime.format(new Date(iso));
}

/** Text that anybody may have written, on one line: it must not pass for another one by characters that cannot be seen. */
export function shown(text: string | number | undefined): string {
  return text === undefined || text === "" ? "–" : printable(String(text));
}
