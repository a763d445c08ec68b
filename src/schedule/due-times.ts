import { checkNumber } from "../core/validate.js";
import { fingerprint } from "../queue/envelope.js";
import type { JobTrigger } from "./schedule-options.js";

/** The due times of a job. Times are milliseconds since 1970. */
export interface DueTimes {
  /** The first due time after a time. Undefined: there is none. */
  readonly next: (after: number) => number | undefined;
  /** What is stored of the trigger: another text means that the code has changed. */
  readonly text: string;
}

/** The largest time of a `Date`. */
const maxTime = 8.64e15;

/**
 * Loads the trigger of a job. `croner` is loaded when the first job has an expression.
 * @throws `TypeError` or `RangeError` if the trigger is wrong, or `croner` is not installed.
 */
export async function dueTimesOf(name: string, trigger: JobTrigger): Promise<DueTimes> {
  const what = `Schedule: job ${JSON.stringify(name)}`;
  const { cron, timeZone, everyInMs, nextRun } = trigger as Partial<Record<"cron" | "timeZone" | "everyInMs" | "nextRun", unknown>>;
  if (cron !== undefined) return cronTimes(what, cron, timeZone);
  return everyInMs === undefined ? functionTimes(what, nextRun) : intervalTimes(what, everyInMs as number);
}

async function cronTimes(what: string, cron: unknown, timeZone: unknown = "UTC"): Promise<DueTimes> {
  if (typeof cron !== "string" || typeof timeZone !== "string") throw new TypeError(`${what}: cron and timeZone must be strings.`);
  // croner takes it for none, which is the time zone of the host: instances would have due times of their own.
  if (timeZone === "") throw new RangeError(`${what}: timeZone must not be empty. Leave it out for UTC.`);
  const Cron = await loadCron(what);
  let expression: CronLike;
  try {
    expression = new Cron(cron, { timezone: timeZone, paused: true });
    // Time zones are checked at first use.
    expression.nextRun(new Date(0));
  } catch (error) {
    throw new RangeError(`${what}: the expression ${JSON.stringify(cron)} with the time zone ${JSON.stringify(timeZone)} is not valid: ${(error as Error).message}`, { cause: error });
  }
  return { text: `cron ${cron} ${timeZone}`, next: (after) => later(what, "croner", after, expression.nextRun(new Date(after))) };
}

/** The members of `croner` that are called. */
interface CronLike {
  nextRun(after: Date): Date | null;
}

async function loadCron(what: string): Promise<new (pattern: string, options: { timezone: string; paused: boolean }) => CronLike> {
  try {
    const { Cron } = await import("croner");
    return Cron;
  } catch (error) {
    throw new TypeError(`${what}: cron needs the package croner: npm install croner. Or use everyInMs or nextRun.`, { cause: error });
  }
}

function intervalTimes(what: string, everyInMs: number): DueTimes {
  checkNumber(`${what}: everyInMs`, everyInMs, { min: 100, max: maxTime, integer: true });
  return {
    text: `every ${everyInMs} ms`,
    next: (after) => {
      const due = (Math.floor(after / everyInMs) + 1) * everyInMs;
      return due <= maxTime ? due : undefined;
    },
  };
}

function functionTimes(what: string, nextRun: unknown): DueTimes {
  if (typeof nextRun !== "function") throw new TypeError(`${what}: nextRun must be a function.`);
  const call = nextRun as (after: Date) => unknown;
  return {
    text: "nextRun",
    next: (after) => later(what, "nextRun", after, call(new Date(after))),
  };
}

/** A time that is not later would be run over and over again. */
function later(what: string, source: string, after: number, due: unknown): number | undefined {
  if (due === undefined || due === null) return undefined;
  const time = due instanceof Date ? due.getTime() : NaN;
  if (!(time > after)) throw new RangeError(`${what}: ${source} must return a date after ${new Date(after).toISOString()}, or undefined.`);
  return time;
}

/**
 * The latest due time in `(after, until]`. Looks back in growing windows until one has a due time, and halves that one: an outage of a year
 * of a job that is due each second must not be enumerated, and neither must a day of it a year ago.
 */
export function latestIn(times: Pick<DueTimes, "next">, after: number, until: number): number | undefined {
  for (let windowInMs = 1_000; ; windowInMs *= 4) {
    const from = Math.max(after, until - windowInMs);
    const first = times.next(from);
    if (first !== undefined && first <= until) return lastFrom(times, first, until);
    if (from === after) return undefined;
  }
}

/** The latest due time in `[first, until]`. */
function lastFrom(times: Pick<DueTimes, "next">, first: number, until: number): number {
  let latest = first;
  // In most cases there is no other one: that is the first question.
  for (let probe = first, end = until; latest < end; probe = latest + Math.floor((end - latest) / 2)) {
    const due = times.next(probe);
    if (due !== undefined && due <= end) latest = due;
    else end = probe;
  }
  return latest;
}

/** The delay of a due time: any number below `jitterInMs`, but the same on all instances. */
export function jitterOf(key: string, due: number, jitterInMs: number): number {
  return jitterInMs === 0 ? 0 : Math.floor((Number.parseInt(fingerprint(`${key}/${due}`).slice(0, 8), 16) / 2 ** 32) * jitterInMs);
}
