import { StorageFault } from "./storage-fault.js";

/** A time of a file, in units of 100 ns since 1970: the resolution of the service. */
export type FileTime = bigint;

const perMs = 10_000n;

export function fileTimeOf(ms: number): FileTime {
  return BigInt(Math.floor(ms * 10_000));
}

/** With seven fractional digits, as file times have in responses. */
export function fileTimeText(time: FileTime): string {
  const below = ((time % perMs) + perMs) % perMs;
  return new Date(Number((time - below) / perMs)).toISOString().replace("Z", `${below.toString().padStart(4, "0")}Z`);
}

/** An ISO time with up to seven fractional digits. */
export function parseFileTime(text: string): FileTime {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new StorageFault("InvalidHeaderValue");
  const digits = /\.\d{3}(\d{1,4})/.exec(text)?.[1] ?? "";
  return BigInt(ms) * perMs + BigInt(digits.padEnd(4, "0"));
}
