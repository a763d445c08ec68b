/** A run of a job, in the time of the machine. Without `to`, it did not act to its end. */
export interface JobRun {
  readonly due: number;
  readonly from: number;
  /** The run was certain to be held then, and at all times before. */
  readonly to?: number;
}

export interface JobHistory {
  readonly everyInMs: number;
  readonly runs: readonly JobRun[];
  /** The due times whose effects are stored, one for each effect. For jobs that commit. */
  readonly effects?: readonly number[];
  /** A due time starts at most once. */
  readonly startsOnce?: boolean;
  /** How much earlier than its due time a run may begin: the clock of the service is known to a second. */
  readonly earlyByInMs: number;
}

/** What is wrong with the history of a job whose due times must all run, one after the other. */
export function checkDueTimes(job: string, { everyInMs, runs, effects, startsOnce = false, earlyByInMs }: JobHistory): string[] {
  const problems: string[] = [];
  const begun = runs.toSorted((a, b) => a.from - b.from);
  for (const { due, from } of begun) if (from < due - earlyByInMs) problems.push(`${job}: ${due} ran ${Math.round(due - from)} ms too early`);
  let [ended, last] = [-Infinity, -Infinity];
  for (const { due, from, to } of begun) {
    if (to !== undefined && from < ended) problems.push(`${job}: the run of ${due} began ${(ended - from).toFixed(1)} ms before the one before it had ended`);
    if (to !== undefined) ended = Math.max(ended, to);
    if (due < last) problems.push(`${job}: ${due} ran after ${last}`);
    if (startsOnce && due === last) problems.push(`${job}: ${due} started twice`);
    last = Math.max(last, due);
  }
  const dues = effects ? effects.toSorted((a, b) => a - b) : [...new Set(begun.map(({ due }) => due))].toSorted((a, b) => a - b);
  for (const [i, due] of dues.entries()) {
    const before = dues[i - 1];
    if (before === undefined) continue;
    if (due === before) problems.push(`${job}: ${due} has two effects`);
    else if (due !== before + everyInMs) problems.push(`${job}: ${due} follows ${before}, and those between are left out`);
  }
  return problems;
}
