import { checkNumber } from "../internal/validate.js";
import type { TargetOptions } from "../update/options.js";

/** Options of {@link watch}. `timeoutInMs` is the time for one look. */
export interface WatchOptions extends TargetOptions {
  /**
   * The time between two looks, give or take a quarter at random, so that processes that were started together do not
   * ask together for ever.
   * @defaultValue 5_000: a change is known within seconds, for 12 small requests per minute
   */
  intervalInMs?: number | undefined;
  /**
   * The longest time between two looks while they fail. It starts with `intervalInMs` and doubles with each failure.
   * @defaultValue 60_000, or `intervalInMs` if that is longer
   */
  maxIntervalInMs?: number | undefined;
  /**
   * For how long looks may fail before the watch ends with a `WatchFailedError`. `Infinity`: for ever.
   * @defaultValue 300_000: outlasts a failover or a redeployment, and does not hide a dead account for long
   */
  giveUpAfterInMs?: number | undefined;
  /**
   * Told of what does not end the watch: looks that failed, and versions that were passed over since they cannot be
   * used (`SchemaError`). What it throws does end the watch.
   * @defaultValue a warning in the log
   */
  onError?: ((error: unknown) => void) | undefined;
}

export const watchDefaults: Readonly<Record<"intervalInMs" | "maxIntervalInMs" | "giveUpAfterInMs", number>> = Object.freeze({
  intervalInMs: 5_000,
  maxIntervalInMs: 60_000,
  giveUpAfterInMs: 300_000,
});

/** What a watch needs to know, after defaults and checks. */
export interface WatchSettings {
  readonly intervalInMs: number;
  readonly maxIntervalInMs: number;
  readonly giveUpAfterInMs: number;
  readonly onError: ((error: unknown) => void) | undefined;
}

/** What a timer can be set for, with room for the random quarter. */
const longestInMs = 2 ** 30;

export function checkWatchOptions(options: WatchOptions): WatchSettings {
  const { onError } = options;
  if (onError !== undefined && typeof onError !== "function") throw new TypeError("onError must be a function");
  const bounds = { min: 1, max: longestInMs };
  const intervalInMs = checkNumber("intervalInMs", options.intervalInMs ?? watchDefaults.intervalInMs, bounds);
  const maxIntervalInMs = options.maxIntervalInMs ?? Math.max(watchDefaults.maxIntervalInMs, intervalInMs);
  return {
    intervalInMs,
    maxIntervalInMs: checkNumber("maxIntervalInMs", maxIntervalInMs, { ...bounds, min: intervalInMs }),
    giveUpAfterInMs: checkNumber("giveUpAfterInMs", options.giveUpAfterInMs ?? watchDefaults.giveUpAfterInMs, { min: 0 }),
    onError,
  };
}
