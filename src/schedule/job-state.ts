import { jitterOf, latestIn } from "./due-times.js";
import type { DueTimes } from "./due-times.js";
import type { JobPolicy } from "./schedule-options.js";

/** A run in progress. Times are milliseconds since 1970, by the clock of the service. */
export interface RunState {
  /** Identifies one attempt: an instance that takes over gives it another id, so that writes of the earlier one are refused. */
  readonly id: string;
  readonly due: number;
  readonly isManual: boolean;
  readonly key: string | undefined;
  readonly attempt: number;
  readonly holder: string;
  readonly startedAt: number;
  /** The partition of a commit that may be in flight: stored before it is sent. */
  readonly partition: string | undefined;
  /** Its instance was stopped and has given it back: any instance may go on at once. */
  readonly isReleased: boolean;
}

/** A run that has ended, or due times that were skipped. */
export interface EndedRun {
  readonly due: number;
  readonly state: "succeeded" | "failed" | "skipped";
  readonly key: string | undefined;
  readonly attempt: number;
  readonly startedAt: number | undefined;
  readonly durationInMs: number | undefined;
  readonly error: string | undefined;
  readonly holder: string | undefined;
}

/** A manual trigger that has not started. */
export interface ManualRequest {
  readonly due: number;
  readonly key: string | undefined;
}

/**
 * What is stored of a job: one row, which every transition changes on the condition that it is unchanged.
 *
 * | state    | event                                  | condition                               | next state                                                       |
 * |----------|----------------------------------------|-----------------------------------------|------------------------------------------------------------------|
 * | no row   | register                               |                                         | idle; due times from now on count                                |
 * | any      | register with another trigger          |                                         | same; due times of the last minute and from now on count         |
 * | idle     | claim a due time                       | lock held; the row is as it was decided | running; the cursor moves to the due time, and never back        |
 * | idle     | skip due times (`missed: "skip"`)      | the row is as it was decided            | idle; the cursor moves                                           |
 * | idle     | claim a manual request                 | lock held; also if it is paused         | running; the request is removed                                  |
 * | running  | intend (a commit into a partition)     | own id                                  | running, with the partition                                      |
 * | running  | finish                                 | own id; lock or not                     | idle; in the history. `overlap: "skip"`: skips what came due     |
 * | running  | release (stop)                         | own id                                  | running, released                                                |
 * | running  | take over, `onCrash: "retry"`          | lock held, so its holder has lost it    | running with another id, attempt + 1 (not if it was released)    |
 * | running  | take over, `"fail"`, or too many       | lock held                               | idle; failed                                                     |
 * | running  | take over after a commit               | lock held; its receipt exists           | idle; succeeded, without another run                             |
 * | any      | request, pause, resume                 |                                         | the request is added; `paused`; resume moves the cursor to now   |
 *
 * The cursor is the key to "once": a due time is run only by the write that moves the cursor past it, and the clock of no instance decides
 * whether that has happened.
 */
export interface JobState {
  readonly trigger: string;
  /** All due times up to this one are decided. */
  readonly cursor: number;
  readonly paused: boolean;
  /** The next due time, for readers without the code of the job. */
  readonly nextDue: number | undefined;
  /** Due times in `(from, to]` passed during a run, and are skipped; earlier ones are still to be decided. */
  readonly skip: { readonly from: number; readonly to: number } | undefined;
  /** When the last run ended: due times before it have waited for it, and are not missed. */
  readonly freeSince: number;
  readonly run: RunState | undefined;
  readonly requests: readonly ManualRequest[];
  /** The newest one last. */
  readonly history: readonly EndedRun[];
}

/** A due time is missed so long after it: `missed: "skip"` does not make up for it. */
export const missedAfterInMs = 60_000;

/** No more manual triggers wait than this. */
export const maxRequests = 100;

/** What an instance does with a job that is idle. */
export type Decision =
  /** `skippedFrom`: the first of the earlier due times that do not run. */
  | { readonly kind: "run"; readonly due: number; readonly isManual: false; readonly skippedFrom: number | undefined }
  | { readonly kind: "run"; readonly due: number; readonly isManual: true; readonly key: string | undefined }
  | { readonly kind: "skip"; readonly from: number; readonly upTo: number }
  /** `at`: when it is due, jitter included. */
  | { readonly kind: "wait"; readonly at: number | undefined };

/** The code of a job, as far as it decides. */
export interface JobRules {
  /** Distinguishes the jitter of jobs. */
  readonly key: string;
  readonly times: DueTimes;
  readonly policy: Pick<JobPolicy, "missed" | "overlap" | "jitterInMs">;
}

/** What to do with a job that is not running. */
export function decide(state: JobState, rules: JobRules, now: number): Decision {
  const [request] = state.requests;
  if (request) return { kind: "run", due: request.due, isManual: true, key: request.key };
  if (state.paused) return { kind: "wait", at: undefined };
  const first = firstPending(state, rules.times);
  const readyAt = (due: number): number => due + jitterOf(rules.key, due, rules.policy.jitterInMs);
  if (first === undefined || readyAt(first) > now) return { kind: "wait", at: first === undefined ? undefined : readyAt(first) };
  const run = (due: number): Decision => ({ kind: "run", due, isManual: false, skippedFrom: due > first ? first : undefined });
  switch (rules.policy.missed) {
    case "all":
      return run(first);
    case "latest":
      return run(latestReady(state, rules.times, first, now, readyAt));
    case "skip": {
      const isMissed = (due: number): boolean => now - Math.max(readyAt(due), state.freeSince) > missedAfterInMs;
      if (!isMissed(first)) return run(first);
      const from = now - missedAfterInMs - rules.policy.jitterInMs;
      const recent = firstPending({ ...state, cursor: Math.max(state.cursor, from) }, rules.times);
      if (recent !== undefined && readyAt(recent) <= now && !isMissed(recent)) return run(recent);
      return { kind: "skip", from: first, upTo: Math.max(first, Math.min(from, (recent ?? Infinity) - 1)) };
    }
  }
}

/** The first due time that is not decided. */
function firstPending({ cursor, skip }: Pick<JobState, "cursor" | "skip">, times: DueTimes): number | undefined {
  const due = times.next(cursor);
  return due !== undefined && skip && due > skip.from && due <= skip.to ? times.next(skip.to) : due;
}

/** The latest one that its jitter does not delay any more. */
function latestReady({ skip }: JobState, times: DueTimes, first: number, now: number, readyAt: (due: number) => number): number {
  let latest: number | undefined = now;
  do {
    latest = latestIn(times, first, latest);
    if (latest !== undefined && skip && latest > skip.from && latest <= skip.to) latest = latestIn(times, first, skip.from);
    if (latest === undefined || readyAt(latest) <= now) return latest ?? first;
    latest -= 1;
  } while (latest > first);
  return first;
}

/** A job that is registered for the first time. Earlier due times do not count. */
export function newJob(trigger: string, now: number): JobState {
  return { trigger, cursor: now, paused: false, nextDue: undefined, skip: undefined, freeSince: now, run: undefined, requests: [], history: [] };
}

/** The code of the job may have changed: what would have been due by the new trigger before the change does not count as missed. */
export function registered(state: JobState, { times }: JobRules, now: number): JobState {
  if (state.trigger === times.text) return state;
  return withNextDue({ ...state, trigger: times.text, cursor: Math.max(state.cursor, now - missedAfterInMs), skip: undefined }, times);
}

/** Who runs it, and since when. */
export type Attempt = Pick<RunState, "id" | "holder" | "startedAt">;

/** Undefined: the decision was made on another state. */
export function claimed(state: JobState, basis: JobState, decision: Decision & { kind: "run" }, rules: JobRules, run: Attempt, historyLimit: number): JobState | undefined {
  // The response to the write was lost.
  if (state.run?.id === run.id) return state;
  if (state.run || state.cursor !== basis.cursor) return undefined;
  const { due, isManual } = decision;
  const running: RunState = { ...run, due, isManual, key: isManual ? decision.key : undefined, attempt: 1, partition: undefined, isReleased: false };
  if (isManual) {
    const [request, ...requests] = state.requests;
    return request?.due === due ? { ...state, run: running, requests } : undefined;
  }
  if (due <= state.cursor || state.paused) return undefined;
  const moved = movedTo(state, due, rules.times);
  const reason = `missed: the due times from here to before ${iso(due)} did not run`;
  return { ...moved, run: running, history: decision.skippedFrom === undefined ? state.history : added(state.history, skippedRun(decision.skippedFrom, reason), historyLimit) };
}

/** Undefined: the decision was made on another state. */
export function skipped(state: JobState, { from, upTo }: Decision & { kind: "skip" }, rules: JobRules, historyLimit: number): JobState | undefined {
  if (state.run || state.paused || upTo <= state.cursor) return undefined;
  const history = added(state.history, skippedRun(from, `missed: the due times from here to ${iso(upTo)} did not run`), historyLimit);
  return { ...movedTo(state, upTo, rules.times), history };
}

/** Another attempt, by the holder of the lock. Undefined: the run has ended, or another instance has taken over. */
export function takenOver(state: JobState, dead: RunState, run: Attempt): JobState | undefined {
  if (state.run?.id === run.id) return state;
  // With another partition, a commit may be in flight that no instance has searched for.
  if (state.run?.id !== dead.id || state.run.partition !== dead.partition) return undefined;
  const attempt = state.run.isReleased ? state.run.attempt : state.run.attempt + 1;
  return { ...state, run: { ...state.run, ...run, attempt, partition: undefined, isReleased: false } };
}

/** A commit will be sent. Undefined: the run belongs to another instance by now. */
export function intended(state: JobState, id: string, partition: string): JobState | undefined {
  return state.run?.id === id ? { ...state, run: { ...state.run, partition } } : undefined;
}

/** Its instance was stopped. Undefined: the run belongs to another instance by now. */
export function released(state: JobState, id: string): JobState | undefined {
  return state.run?.id === id ? { ...state, run: { ...state.run, isReleased: true } } : undefined;
}

/** How a run ended. */
export interface RunOutcome {
  readonly state: "succeeded" | "failed";
  readonly error: string | undefined;
  readonly durationInMs: number | undefined;
}

/** Undefined: the run belongs to another instance by now. */
export function finished(state: JobState, id: string, outcome: RunOutcome, rules: JobRules, now: number, historyLimit: number): JobState | undefined {
  const { run } = state;
  if (run?.id !== id) return undefined;
  const { due, key, attempt, startedAt, holder } = run;
  const history = added(state.history, { due, key, attempt, startedAt, holder, state: outcome.state, error: outcome.error, durationInMs: outcome.durationInMs }, historyLimit);
  const idle: JobState = { ...state, run: undefined, history, freeSince: Math.max(state.freeSince, now) };
  const times = tolerant(rules.times);
  return withNextDue(rules.policy.overlap === "skip" ? withoutOverlap(idle, times, startedAt, now, historyLimit) : idle, times);
}

/** A function of the caller that throws must not keep the end of a run from being recorded. It is reported when the next due time is determined. */
function tolerant({ next, text }: DueTimes): DueTimes {
  const tryNext = (after: number): number | undefined => {
    try {
      return next(after);
    } catch {
      return undefined;
    }
  };
  return { text, next: tryNext };
}

/**
 * Skips what came due while the run was in progress: in `(from, to]`. What came due before it, while no instance was alive, is not skipped.
 * One range is kept. If there is another one already, and time between both, the new one is not skipped: a run too many is better than
 * one too few.
 */
function withoutOverlap(state: JobState, times: DueTimes, from: number, to: number, historyLimit: number): JobState {
  const first = firstPending(state, times);
  if (first === undefined || first > to) return state;
  const noted = (due: number): readonly EndedRun[] => added(state.history, skippedRun(due, `overlap: the due times from here to ${iso(to)} passed during a run`), historyLimit);
  if (first > from) return { ...movedTo(state, to, times), history: noted(first) };
  const { skip } = state;
  const isKept = skip !== undefined && skip.to > state.cursor;
  if (isKept && from - skip.to > missedAfterInMs) return state;
  const skippedFrom = isKept ? skip.to : from;
  const due = times.next(skippedFrom);
  const range = { from: isKept ? skip.from : from, to: Math.max(skippedFrom, to) };
  // Nothing to skip: a range that is kept grows all the same, so that the next one follows it.
  if (due === undefined || due > to) return isKept ? { ...state, skip: range } : state;
  return { ...state, skip: range, history: noted(due) };
}

/** Adds a manual run. */
export function requested(state: JobState, key: string | undefined, now: number): JobState {
  const used = [...state.requests, ...(state.run ? [state.run] : []), ...state.history].map(({ due }) => due);
  // Distinct due times: they identify runs. Those of expressions and intervals are multiples of 10 ms, and the time of the service that a trigger has just read is a whole second.
  let due = now;
  while (used.includes(due) || due % 10 === 0) due++;
  return { ...state, requests: [...state.requests, { due, key }] };
}

export function findByKey({ requests, run, history }: JobState, key: string): ManualRequest | RunState | EndedRun | undefined {
  return [...requests, ...(run ? [run] : []), ...history].find((entry) => entry.key === key);
}

export function paused(state: JobState): JobState {
  return { ...state, paused: true };
}

/** Due times that passed during the pause do not run. */
export function resumed(state: JobState, now: number): JobState {
  return state.paused ? { ...state, paused: false, cursor: Math.max(state.cursor, now), skip: undefined } : state;
}

function movedTo(state: JobState, cursor: number, times: DueTimes): JobState {
  return withNextDue({ ...state, cursor, skip: state.skip && state.skip.to > cursor ? state.skip : undefined }, times);
}

export function withNextDue(state: JobState, times: DueTimes): JobState {
  return { ...state, nextDue: firstPending(state, times) };
}

function skippedRun(due: number, error: string): EndedRun {
  return { due, state: "skipped", key: undefined, attempt: 0, startedAt: undefined, durationInMs: undefined, error, holder: undefined };
}

function added(history: readonly EndedRun[], run: EndedRun, limit: number): readonly EndedRun[] {
  return [...history, run].slice(-limit);
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
