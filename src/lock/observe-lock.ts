import type { CallOptions } from "../clients/call.js";
import { delay, isAborted, linkSignals } from "../core/deadline.js";
import { read, toPublicError } from "../core/request.js";
import { isTransient } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { checkNumber, checkOptions, maxTryTimeoutInMs } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import type { BlobLocks } from "./blob-locks.js";
import type { LockStatus } from "./lock-options.js";

/** Options of {@link LeaderElection.observe}. */
export interface ObserveOptions extends CallOptions {
  /** The time between two polls. @defaultValue 1_000: 86,400 requests a day for each observer */
  pollIntervalInMs?: number | undefined;
  /**
   * The time limit of one poll. A poll that takes longer is a transient failure.
   * @defaultValue 8_000, as for the tries of other reads: without a limit one lost response would hide all later changes
   */
  tryTimeoutInMs?: number | undefined;
}

const names: OptionNames<ObserveOptions> = { pollIntervalInMs: 1, tryTimeoutInMs: 1, abortSignal: 1, tracingOptions: 1 };

type Observed = LockStatus & { readonly isSelf: boolean };

/** Yields the state of a lock whenever it changes. `return()` ends the wait for the next poll, or the poll in flight. */
export function observeLock(
  locks: BlobLocks,
  name: string,
  isOwnEpoch: (epoch: number | undefined) => boolean,
  options: ObserveOptions = {},
): AsyncIterableIterator<Observed> {
  const returned = new AbortController();
  const polls = pollLock(locks, name, isOwnEpoch, options, returned.signal);
  return {
    next: () => polls.next(),
    // A generator alone would end only after the next change: its `return()` waits for the `next()` in progress.
    return: () => {
      returned.abort();
      return polls.return(undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* pollLock(
  locks: BlobLocks,
  name: string,
  isOwnEpoch: (epoch: number | undefined) => boolean,
  options: ObserveOptions,
  returned: AbortSignal,
): AsyncGenerator<Observed, undefined> {
  checkOptions("observe", options, names);
  const pollIntervalInMs = checkNumber("pollIntervalInMs", options.pollIntervalInMs ?? 1_000, { min: 10, max: 2 ** 31 - 1 });
  const timeoutInMs = checkNumber("tryTimeoutInMs", options.tryTimeoutInMs ?? maxTryTimeoutInMs, { min: 1 });
  const { tracingOptions } = options;
  const { controller, unlink } = linkSignals(options.abortSignal, returned);
  const abortSignal = controller.signal;
  const failures = new FailureStreak();
  let last = "";
  try {
    while (!abortSignal.aborted) {
      let status: LockStatus | undefined;
      try {
        status = await read((signal) => locks.inspect(name, { abortSignal: signal, tracingOptions }), { timeoutInMs, abortSignal });
        failures.end();
      } catch (error) {
        if (isAborted(abortSignal)) return;
        if (!isTransient(error) || failures.add()) throw toPublicError(error, redactUrl(locks.blobOf(name).url), timeoutInMs);
      }
      if (status) {
        const isSelf = status.state === "leased" && isOwnEpoch(status.epoch);
        const seen = JSON.stringify([status.state, status.epoch, isSelf]);
        if (seen !== last) yield { ...status, isSelf };
        last = seen;
      }
      await delay(pollIntervalInMs, abortSignal).catch(() => undefined);
    }
  } finally {
    unlink();
  }
}
