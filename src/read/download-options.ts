import type { CallOptions } from "../clients/call.js";
import { checkNumber, checkOneOf, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { checkTargetSettings } from "../update/options.js";
import type { LeaseCondition } from "../update/options.js";

/** The progress of {@link downloadConsistent}. */
export interface DownloadProgress {
  /** How many bytes have arrived. */
  readonly loadedBytes: number;
  /** The size of the version that is downloaded. */
  readonly totalBytes: number;
  /** How often it has started again, from 0 bytes, because the blob had changed. */
  readonly restarts: number;
}

/** Options of {@link downloadConsistentStream}. */
export interface DownloadStreamOptions extends CallOptions {
  /** The lease that the caller holds on the blob, sent with every request. @defaultValue none: reads need no lease */
  conditions?: LeaseCondition | undefined;
  /**
   * The size of the range of one request. A blob of at most this size costs one request.
   * @defaultValue 4 MiB, as the SDK: large enough that the requests do not count
   */
  blockSizeInBytes?: number | undefined;
  /**
   * How many requests are in flight at the same time. A stream keeps up to this many blocks in memory.
   * @defaultValue 5, as the SDK
   */
  concurrency?: number | undefined;
  /**
   * A larger blob is a {@link ContentTooLargeError}, before any memory is allocated for it.
   * @defaultValue Infinity: only the caller knows what it can hold
   */
  maxSizeInBytes?: number | undefined;
  /**
   * The time for one request and its body. The part that has not arrived by then is requested again. Also the time for which
   * connections may break without bringing anything; at least five requests are sent.
   * @defaultValue 60_000: a line that brings 4 MiB in a minute is never interrupted
   */
  tryTimeoutInMs?: number | undefined;
  /**
   * Download an append blob that other clients keep appending to: the bytes that it has at the first response. They never change
   * while it is the same blob, so appends during the download do not matter. A blob that is deleted or created again is
   * recognised by its creation time, the number of its blocks and its size, and treated as rewritten.
   * @defaultValue false: one version, so that every append during the download is a change
   */
  stablePrefix?: boolean | undefined;
  /** Called for each chunk that arrives. An error that it throws, or that its promise rejects with, ends the download. @defaultValue none */
  onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/** Options of {@link downloadConsistent}. */
export interface DownloadOptions extends DownloadStreamOptions {
  /**
   * What to do if the blob is rewritten during the download: `"restart"` with the new version, or `"throw"` a
   * {@link ContentChangedError}.
   * @defaultValue "restart": the caller wants one version, usually the newest
   */
  onChange?: "restart" | "throw" | undefined;
  /**
   * How often the download starts again before it gives up with a {@link ContentChangedError}.
   * @defaultValue 5: a blob that changes faster than it can be read needs another remedy, a snapshot for instance
   */
  maxRestarts?: number | undefined;
}

const mebibyte = 1024 * 1024;

interface DownloadDefaults {
  readonly blockSizeInBytes: number;
  readonly concurrency: number;
  readonly maxSizeInBytes: number;
  readonly tryTimeoutInMs: number;
  readonly onChange: "restart" | "throw";
  readonly maxRestarts: number;
}

export const downloadDefaults: DownloadDefaults = Object.freeze({
  blockSizeInBytes: 4 * mebibyte,
  concurrency: 5,
  maxSizeInBytes: Number.POSITIVE_INFINITY,
  tryTimeoutInMs: 60_000,
  onChange: "restart",
  maxRestarts: 5,
});

/** The options of a download after defaults and checks. */
export interface DownloadSettings extends DownloadDefaults {
  readonly leaseId: string | undefined;
  readonly stablePrefix: boolean;
  readonly onProgress: ((progress: DownloadProgress) => void) | undefined;
}

const streamNames: OptionNames<DownloadStreamOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  conditions: 1,
  blockSizeInBytes: 1,
  concurrency: 1,
  maxSizeInBytes: 1,
  tryTimeoutInMs: 1,
  stablePrefix: 1,
  onProgress: 1,
};
const downloadNames: OptionNames<DownloadOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  conditions: 1,
  blockSizeInBytes: 1,
  concurrency: 1,
  maxSizeInBytes: 1,
  tryTimeoutInMs: 1,
  stablePrefix: 1,
  onProgress: 1,
  onChange: 1,
  maxRestarts: 1,
};

export function checkDownloadOptions(call: "downloadConsistent" | "downloadConsistentStream", options: DownloadOptions): DownloadSettings {
  if (call === "downloadConsistent") checkOptions(call, options, downloadNames);
  else checkOptions<DownloadStreamOptions>(call, options, streamNames);
  const { onProgress, stablePrefix = false } = options;
  if (typeof stablePrefix !== "boolean") throw new TypeError(`${call}: stablePrefix must be true or false.`);
  if (onProgress !== undefined && typeof onProgress !== "function") throw new TypeError(`${call}: onProgress must be a function.`);
  const given = <K extends keyof DownloadDefaults>(name: K): DownloadDefaults[K] =>
    (options[name] as DownloadDefaults[K] | undefined) ?? downloadDefaults[name];
  const whole = (name: "blockSizeInBytes" | "concurrency" | "maxSizeInBytes" | "maxRestarts", bounds: { min: number; max?: number }): number =>
    checkNumber(name, given(name), { ...bounds, integer: true });
  return {
    blockSizeInBytes: whole("blockSizeInBytes", { min: 1, max: 1024 * mebibyte }),
    concurrency: whole("concurrency", { min: 1, max: 1_000 }),
    maxSizeInBytes: whole("maxSizeInBytes", { min: 0 }),
    maxRestarts: whole("maxRestarts", { min: 0 }),
    tryTimeoutInMs: checkNumber("tryTimeoutInMs", given("tryTimeoutInMs"), { min: 1 }),
    onChange: checkOneOf("onChange", given("onChange"), ["restart", "throw"]),
    leaseId: checkTargetSettings({ conditions: options.conditions }).leaseId,
    stablePrefix,
    onProgress,
  };
}
