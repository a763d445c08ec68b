import { Deadline, isAborted, onAbort, RequestTimeoutError } from "../../core/deadline.js";
import { inParallel } from "../../core/parallel.js";
import { fullJitter, retry } from "../../core/retry.js";
import { codeOf, isTransient, statusOf } from "../../core/storage-errors.js";
import type { Check } from "./check.js";
import type { Workspace } from "./workspace.js";

/**
 * `ok`: as expected of Azure. `known`: as the emulators are known to differ. `different`: neither. `failed`: the check could not ask, or got
 * no response.
 */
export type Status = "ok" | "known" | "different" | "failed";

export interface CheckResult {
  readonly check: Check;
  readonly status: Status;
  readonly found: string;
}

export interface RunOptions {
  /** Whether what emulators are known to do otherwise is accepted. */
  readonly emulator: boolean;
  onResult?(result: CheckResult): void;
}

/** How many checks run at once, beside those that wait. */
const concurrency = 6;
/** Those that wait for leases: all at the same time, as far as possible, so that 15 seconds are waited for once. */
const slowConcurrency = 80;
/** For a check that does not wait; the others have the time of their polls, too. */
const checkTimeoutInMs = 60_000;
/** How long the checks in flight may take to end after a run was cancelled, before what they use is removed. */
const graceInMs = 5_000;

/**
 * Runs the checks, and returns the results of those that have ended. If the signal of the workspace aborts, no check is started any more,
 * and those in flight are left to themselves after a few seconds.
 */
export async function runChecks(checks: readonly Check[], workspace: Workspace, options: RunOptions): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  const { signal } = workspace;
  const runOne = async (check: Check): Promise<void> => {
    if (isAborted(signal)) return;
    const result = await resultOf(check, workspace, options.emulator);
    if (isAborted(signal)) return;
    results.push(result);
    options.onResult?.(result);
  };
  const slow = checks.filter((check) => check.slow);
  const quick = checks.filter((check) => !check.slow);
  await Promise.all([inParallel(slow, slowConcurrency, runOne), inParallel(quick, concurrency, runOne)]);
  return results;
}

async function resultOf(check: Check, workspace: Workspace, emulator: boolean): Promise<CheckResult> {
  try {
    const found = await retry(() => runInTime(check, workspace), {
      // The SDKs do not send again in a run, as that would change responses: a new attempt begins with something new.
      maxAttempts: 3,
      shouldRetry: (error) => !isAborted(workspace.signal) && !(error instanceof RequestTimeoutError) && isTransient(error),
      backoff: (failed) => fullJitter(failed, 500, 5_000),
      abortSignal: workspace.signal,
    });
    const status = found === check.expected ? "ok" : emulator && found === check.emulator ? "known" : "different";
    return { check, status, found };
  } catch (error) {
    return { check, status: "failed", found: describe(error) };
  }
}

/** A request without a response does not keep the run waiting, nor does a cancelled one for long. */
async function runInTime(check: Check, workspace: Workspace): Promise<string> {
  const timeoutInMs = checkTimeoutInMs + (check.polls ?? 0) * 2_000;
  const deadline = new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs, "no result"));
  const off = onAbort(workspace.signal, () => deadline.shortenTo(graceInMs));
  try {
    return await deadline.race(check.run(workspace));
  } finally {
    off();
    deadline.dispose();
  }
}

function describe(error: unknown): string {
  const status = statusOf(error);
  if (status !== undefined) return `${status} ${codeOf(error) ?? ""}`.trim();
  const [firstLine = ""] = (error instanceof Error ? error.message : String(error)).split("\n", 1);
  // A message of the network may have a URL, and that a SAS.
  return firstLine.replace(/\bsig=[^&\s]+/g, "sig=...");
}
