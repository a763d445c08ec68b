import { printable } from "../errors.js";
import { Recent } from "./recent.js";
import { errorLabel, logger } from "./telemetry.js";

/** A failure of which no caller is told, and no listener. See {@link reportFailuresTo}. */
export interface UnhandledFailure {
  /** What has failed: `QueueConsumer of orders`, `LeaderElection "scheduler"`, `BlobLocks`. */
  readonly component: string;
  /** What happened, and what to do. Without the message of `error`, which may contain confidential data. */
  readonly message: string;
  /** The error; undefined for a lock that has been waited for too long. */
  readonly error: unknown;
}

type Report = (failure: UnhandledFailure) => unknown;

const toConsole: Report = ({ message }) => console.warn(`azure-storage-concurrency: ${message}`);

let report: Report = toConsole;

/**
 * Where failures go that would pass unnoticed otherwise: of a component without a listener of `error`, of a listener that throws, of a release in
 * the background that is given up, and of a lock for which a caller has waited for a minute. Each is reported once for each cause.
 * @param target - `"console"`, as before the first call: `console.warn`. `"none"`: nowhere. Or a function; what it throws is ignored.
 * @example
 * ```ts
 * reportFailuresTo(({ message, error }) => log.warn({ error }, message));
 * ```
 * @throws `TypeError` if it is none of these.
 */
export function reportFailuresTo(target: "console" | "none" | ((failure: UnhandledFailure) => void)): void {
  const targets: readonly unknown[] = ["console", "none"];
  if (typeof target !== "function" && !targets.includes(target)) throw new TypeError('reportFailuresTo needs "console", "none" or a function');
  report = target === "console" ? toConsole : target === "none" ? () => undefined : target;
}

/** More causes than this are not told apart: an application may throw errors with any name. */
const maxCauses = 1_000;

/** Reports each cause once. */
export class FailureReports {
  readonly #reported = new Recent<true>(maxCauses);

  /** @param cause - By default the name, code and status of the error. */
  report(failure: UnhandledFailure, cause: string = errorLabel(failure.error)): void {
    if (this.#reported.has(cause)) return;
    this.#reported.get(cause, () => true);
    // Stored text, the name of a holder for example, must not add a line to what is printed.
    callListener(report, { ...failure, message: printable(failure.message) }, (error) => logger.warning(`a failure could not be reported: ${errorLabel(error)}`));
  }
}

/**
 * Calls a listener, or another function of the caller that returns nothing by its type. `onFailure` gets what it throws. An async
 * function is accepted there as well: `onFailure` gets what its promise rejects with, which would end the process otherwise.
 */
export function callListener<D>(listener: (detail: D) => unknown, detail: D, onFailure: (error: unknown) => void): void {
  try {
    const result = listener(detail) as Partial<PromiseLike<unknown>> | null | undefined;
    if (typeof result?.then === "function") result.then(undefined, onFailure);
  } catch (error) {
    onFailure(error);
  }
}
