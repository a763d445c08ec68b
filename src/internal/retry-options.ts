import { checkNumber } from "./validate.js";

/** How often, how long and with which pauses something is tried again. */
export interface RetryLimits {
  readonly maxAttempts: number;
  readonly timeoutInMs: number;
  readonly retryDelayInMs: number;
  readonly maxRetryDelayInMs: number;
}

/** The limits with defaults filled in and checked. A longer delay than the default maximum raises that, too. */
export function checkRetryLimits(
  options: { readonly [name in keyof RetryLimits]?: number | undefined },
  defaults: RetryLimits,
  shortest: { readonly timeoutInMs: number },
): RetryLimits {
  const retryDelayInMs = checkNumber("retryDelayInMs", options.retryDelayInMs ?? defaults.retryDelayInMs, { min: 0 });
  const maxRetryDelayInMs = options.maxRetryDelayInMs ?? Math.max(defaults.maxRetryDelayInMs, retryDelayInMs);
  return {
    maxAttempts: checkNumber("maxAttempts", options.maxAttempts ?? defaults.maxAttempts, { min: 1, integer: true }),
    timeoutInMs: checkNumber("timeoutInMs", options.timeoutInMs ?? defaults.timeoutInMs, { min: shortest.timeoutInMs }),
    retryDelayInMs,
    maxRetryDelayInMs: checkNumber("maxRetryDelayInMs", maxRetryDelayInMs, { min: retryDelayInMs, max: 2 ** 31 - 1 }),
  };
}
