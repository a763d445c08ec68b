import type { ContainerLike } from "../clients/blob.js";
import type { CallOptions, TimedCallOptions } from "../clients/call.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import type { LockHandleLike } from "../lease/lease-handle.js";
import type { RunTransactionOptions } from "../transaction/run-transaction.js";
import { checkStandardSchema } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";

/** Options of {@link Once}. */
export interface OnceOptions {
  /** How long results are kept: a repetition after that runs the function again. @defaultValue 86_400_000: a day, as long as clients repeat a request */
  resultTtlInMs?: number | undefined;
  /**
   * How long a process that crashed blocks its keys. A function may run for longer: its claim is renewed.
   * @defaultValue 60_000: long enough to outlast a restart of the network, short enough to wait for
   */
  claimDurationInMs?: number | undefined;
  /**
   * The container of results with more than 60,000 characters as JSON, up to 64 MiB: each is stored in a blob of its own, and the record
   * refers to it. All processes need the same one.
   * @defaultValue none: such a result is a `RangeError`
   */
  overflow?: ContainerLike | undefined;
  /** Creates the table at the first call, if it does not exist. @defaultValue false: most services may not create tables */
  createTable?: boolean | undefined;
}

/** Options of {@link Once.run}. */
export interface OnceRunOptions<R> extends TimedCallOptions {
  /**
   * What the call is about, for example the body of the request. Stored as a hash, and compared with that of the first call: another one
   * is an {@link IdempotencyMismatchError}.
   * @defaultValue none: nothing is compared
   */
  fingerprint?: unknown;
  /**
   * What to do while another call runs the function of this key: `"wait"` for its outcome within `timeoutInMs`, or `"throw"` an
   * {@link InProgressError}.
   * @defaultValue "wait": the caller gets the result
   */
  whenInProgress?: "wait" | "throw" | undefined;
  /**
   * Which errors of the function are stored, and thrown again for each repetition. After any other, the next call runs the function again.
   * `runTransaction` throws the error of the function also if it cannot be stored: nothing was written, and the next call runs the function again.
   * @defaultValue none: most errors pass
   */
  storeError?: ((error: unknown) => boolean) | undefined;
  /** Validates a result that is replayed, and gives it its type. @defaultValue none: it is what JSON says */
  schema?: StandardSchemaLike<R> | undefined;
}

/** Options of {@link Once.runTransaction}. */
export interface OnceTransactionOptions<R> extends Omit<OnceRunOptions<R>, "whenInProgress">, Pick<RunTransactionOptions, "types" | "detectPhantoms"> {}

/** Options of {@link Once.get} and {@link Once.forget}. */
export interface OnceRecordOptions extends CallOptions {
  /** The partition of a {@link Once.runTransaction}, where its record is. @defaultValue none: the key of a {@link Once.run} */
  partitionKey?: string | undefined;
}

/** The second argument of the function of {@link Once.runTransaction}, and the only one of {@link Once.run}. */
export interface OnceContext extends Pick<LockHandleLike, "signal" | "assertHeld"> {
  /** The key of the call. */
  readonly key: string;
  /** 1 plus the number of earlier runs that ended without an outcome: their processes have crashed. */
  readonly attempt: number;
}

/** The result of {@link Once.run}. */
export interface OnceResult<R> {
  /** What the function returned; for a repetition, as JSON represents it. */
  readonly value: R;
  /** Whether it is the stored result of an earlier call: the function did not run for this one. */
  readonly replayed: boolean;
}

/** What {@link Once.get} returns. */
export interface OnceState<R> {
  /** `"inProgress"`: a call runs the function, or has crashed. */
  readonly state: "inProgress" | "succeeded" | "failed";
  /** The result, if it succeeded. */
  readonly value?: R;
}

export const onceOptionNames: OptionNames<OnceOptions> = { resultTtlInMs: 1, claimDurationInMs: 1, overflow: 1, createTable: 1 };
export const runOptionNames: OptionNames<OnceRunOptions<unknown>> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  fingerprint: 1,
  whenInProgress: 1,
  storeError: 1,
  schema: 1,
};
export const transactionOptionNames: OptionNames<OnceTransactionOptions<unknown>> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  fingerprint: 1,
  storeError: 1,
  schema: 1,
  types: 1,
  detectPhantoms: 1,
};
export const recordOptionNames: OptionNames<OnceRecordOptions> = { abortSignal: 1, tracingOptions: 1, partitionKey: 1 };

/**
 * Before the function runs: it could not be undone when they are called.
 * @throws `TypeError` if one of them cannot be called.
 */
export function checkFunctions(call: string, { storeError, schema }: { readonly storeError?: unknown; readonly schema?: unknown }): void {
  if (storeError !== undefined && typeof storeError !== "function") throw new TypeError(`${call}: storeError must be a function`);
  if (schema !== undefined) checkStandardSchema(call, schema);
}
