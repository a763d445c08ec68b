import { isLaterRow, laterFormatError } from "../core/format-version.js";
import { createError, SchemaError } from "../errors.js";
import { ownRowPrefix } from "../target/library-rows.js";
import type { EndedRun, JobState, ManualRequest, RunState } from "./job-state.js";

/** The row keys of all jobs begin with this. Their partition is that of their schedule. */
export const jobRowPrefix: string = `${ownRowPrefix}schedule!`;

/** The partitions of all schedules begin with this. */
export const schedulePartitionPrefix: string = `${ownRowPrefix}schedule-`;

/** The properties of a job's row. All of them are texts and booleans: an Int64 would break programs that list the table. */
export interface JobEntity {
  schedule: string;
  job: string;
  trigger: string;
  cursor: string;
  paused: boolean;
  nextDue: string;
  skip: string;
  freeSince: string;
  run: string;
  requests: string;
  history: string;
}

/** A text property has 32 Ki characters at most. */
const maxHistoryCharacters = 30_000;

/** How far a clock may be ahead of another one. A cursor beyond that is not the library's: it would keep the job from running for years. */
const maxAheadInMs = 86_400_000;

export function entityOf(schedule: string, job: string, state: JobState): JobEntity {
  const { trigger, paused, skip, run, requests } = state;
  return {
    schedule,
    job,
    trigger,
    cursor: iso(state.cursor),
    paused,
    nextDue: state.nextDue === undefined ? "" : iso(state.nextDue),
    skip: skip ? JSON.stringify(skip) : "",
    freeSince: iso(state.freeSince),
    run: run ? JSON.stringify(run) : "",
    requests: JSON.stringify(requests),
    history: historyText(state.history),
  };
}

/** Without the oldest ones, if all of them do not fit. */
function historyText(history: readonly EndedRun[]): string {
  const text = JSON.stringify(history);
  return text.length <= maxHistoryCharacters ? text : historyText(history.slice(Math.ceil(history.length / 10)));
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

/**
 * The state in a row. Another program may have written it, so nothing is taken for granted. A damaged row is never taken for a new job: due
 * times could run twice, or not at all.
 * @param now - The time of the service.
 * @throws {@link SchemaError} if the row is damaged.
 */
export function stateOf(entity: object, url: string, now: number): JobState {
  if (isLaterRow(entity)) throw laterFormatError("The row of a job", url);
  const row = entity as Readonly<Record<string, unknown>>;
  const text = (name: string): string => (typeof row[name] === "string" ? row[name] : damaged(name));
  const damaged = (issue: string): never => {
    const message = `The row of a job of a schedule in ${url} cannot be read: another program has changed it. The job does not run until the row is repaired or deleted.`;
    throw createError(SchemaError, message, { url, phase: "read", issues: [{ message: issue }], etag: undefined });
  };
  const json = (name: string): unknown => {
    try {
      return text(name) === "" ? undefined : (JSON.parse(text(name)) as unknown);
    } catch {
      return damaged(name);
    }
  };
  const time = (name: string): number => timeIn(Date.parse(text(name))) ?? damaged(name);
  const cursor = time("cursor");
  const skip = json("skip");
  const run = json("run");
  const state: JobState = {
    trigger: text("trigger"),
    cursor,
    paused: typeof row["paused"] === "boolean" ? row["paused"] : damaged("paused"),
    nextDue: text("nextDue") === "" ? undefined : time("nextDue"),
    skip: skip === undefined ? undefined : (rangeIn(skip) ?? damaged("skip")),
    freeSince: time("freeSince"),
    run: run === undefined ? undefined : (runIn(run) ?? damaged("run")),
    requests: listIn(json("requests"), requestIn) ?? damaged("requests"),
    history: listIn(json("history"), endedIn) ?? damaged("history"),
  };
  if (Math.max(cursor, state.freeSince, state.skip?.to ?? 0, state.run?.startedAt ?? 0) > now + maxAheadInMs) damaged("a time is in the future");
  return state;
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsIn(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

/** From 1970 on: the search for due times since the year 1, which no clock has shown, would keep the process from anything else. */
function timeIn(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= 8.64e15 ? value : undefined;
}

/** A value that may be absent: JSON leaves out what is undefined. */
function isOptional(value: unknown, type: "string" | "number"): boolean {
  return value === undefined || (type === "number" ? timeIn(value) !== undefined : typeof value === "string");
}

function listIn<T>(value: unknown, parse: (item: Fields) => T | undefined): readonly T[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const items = value.map((item) => {
    const fields = fieldsIn(item);
    return fields && parse(fields);
  });
  return items.every((item) => item !== undefined) ? (items) : undefined;
}

function rangeIn(value: unknown): JobState["skip"] {
  const { from, to } = fieldsIn(value) ?? {};
  return timeIn(from) !== undefined && timeIn(to) !== undefined ? { from: from as number, to: to as number } : undefined;
}

function requestIn({ due, key }: Fields): ManualRequest | undefined {
  return timeIn(due) !== undefined && isOptional(key, "string") ? { due: due as number, key: key as string | undefined } : undefined;
}

function runIn(value: unknown): RunState | undefined {
  const { id, due, isManual, key, attempt, holder, startedAt, partition, isReleased } = fieldsIn(value) ?? {};
  const isValid =
    typeof id === "string" && id !== "" && timeIn(due) !== undefined && typeof isManual === "boolean" && isCount(attempt) && typeof holder === "string" &&
    timeIn(startedAt) !== undefined && typeof isReleased === "boolean" && isOptional(key, "string") && isOptional(partition, "string");
  return isValid ? ({ id, due, isManual, key, attempt, holder, startedAt, partition, isReleased } as RunState) : undefined;
}

function endedIn({ due, state, key, attempt, startedAt, durationInMs, error, holder }: Fields): EndedRun | undefined {
  const isValid =
    timeIn(due) !== undefined && (state === "succeeded" || state === "failed" || state === "skipped") && isCount(attempt) && isOptional(key, "string") &&
    isOptional(startedAt, "number") && isOptional(durationInMs, "number") && isOptional(error, "string") && isOptional(holder, "string");
  return isValid ? ({ due, state, key, attempt, startedAt, durationInMs, error, holder } as EndedRun) : undefined;
}

/** Far below the numbers to which nothing can be added. */
function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31;
}
