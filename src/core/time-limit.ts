import type { AbortSignalLike } from "../clients.js";
import { abortReason, onAbort } from "./abort.js";

/**
 * The time and the caller's cancellation of what is under way. Raced as well as signalled: a client may take no notice of
 * its signal. Whoever makes one lets go of it, or leaves a timer and a listener behind.
 */
export class TimeLimit {
  readonly #stopped: Promise<never>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #off: (() => void) | undefined;

  /**
   * @param tooLate - What it ends with when the time is over.
   * @param abort - Signals the end to what is under way.
   */
  constructor(limitInMs: number, caller: AbortSignalLike | undefined, tooLate: () => unknown, abort: (reason: unknown) => void) {
    this.#stopped = new Promise((_, reject) => {
      const stop = (reason: unknown): void => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
        reject(reason);
        this.letGo();
        abort(reason);
      };
      // Longer than a timer can be set for counts as without end.
      if (limitInMs < 2 ** 31) this.#timer = setTimeout(() => stop(tooLate()), limitInMs);
      this.#off = onAbort(caller, () => caller && stop(abortReason(caller)));
    });
    this.#stopped.catch(() => undefined);
  }

  during<R>(promise: Promise<R>): Promise<R> {
    return Promise.race([promise, this.#stopped]);
  }

  letGo(): void {
    clearTimeout(this.#timer);
    this.#off?.();
  }
}
