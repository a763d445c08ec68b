import type { CallOptions } from "../clients/call.js";
import { findByKey, maxRequests, requested } from "./job-state.js";
import type { JobStore } from "./job-store.js";
import { foundInfo, runsOf } from "./run-info.js";
import type { ScheduledRun } from "./schedule-options.js";
import { quotedText } from "../errors.js";

/** A text property has 32 Ki characters at most. */
const maxRequestCharacters = 30_000;

/** Stores a manual request, or finds the one with the same key. */
export async function triggerJob(store: JobStore, job: string, key: string | undefined, options: Parameters<JobStore["write"]>[2]): Promise<ScheduledRun> {
  let found: ReturnType<typeof findByKey>;
  await store.write(job, (state, now) => {
    found = key === undefined ? undefined : findByKey(state, key);
    if (found) return undefined;
    if (state.requests.length >= maxRequests) throw new RangeError(`Schedule.trigger: ${maxRequests} manual runs of the job ${quotedText(job)} are pending already.`);
    const next = requested(state, key, now);
    if (JSON.stringify(next.requests).length > maxRequestCharacters) throw new RangeError(`Schedule.trigger: the keys of the pending manual runs of the job ${quotedText(job)} are too long for one row.`);
    found = next.requests.at(-1);
    return next;
  }, options);
  if (!found) throw new Error("the request was not stored");
  return foundInfo(job, found);
}

/** The runs of a job, the newest one first. */
export async function* historyOf(store: JobStore, job: string, options: CallOptions): AsyncGenerator<ScheduledRun, undefined> {
  const found = (await store.look(options)).get(job);
  if (found) yield* runsOf(job, store.stateOf(found));
  return undefined;
}
