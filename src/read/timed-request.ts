import { onAbort } from "../internal/abort.js";

/** How many tries in a row may bring nothing. */
export const maxFruitlessTries = 5;

/** A request and its body took longer than they were given. */
export class TryTimeout extends Error {
  override readonly name = "TryTimeout";
}

/**
 * The time and the cancellation of one request whose body is read after its answer has come. Raced as well as
 * signalled: a client may take no notice of its signal.
 */
export class TimedRequest {
  readonly #controller = new AbortController();
  readonly #stopped: Promise<never>;
  #off: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(limitInMs: number, parent: AbortSignal) {
    this.#stopped = new Promise((_, reject) => {
      const stop = (reason: unknown): void => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
        reject(reason);
        this.#letGo();
        this.#controller.abort(reason);
      };
      if (limitInMs < 2 ** 31) this.#timer = setTimeout(() => stop(new TryTimeout(`not complete within ${limitInMs} ms`)), limitInMs);
      this.#off = onAbort(parent, () => stop(parent.reason));
    });
    this.#stopped.catch(() => undefined);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  during<R>(promise: Promise<R>): Promise<R> {
    return Promise.race([promise, this.#stopped]);
  }

  /** Lets go of all. What is still on its way is cancelled. */
  end(how: "complete" | "broken"): void {
    this.#letGo();
    if (how === "broken") this.#controller.abort();
  }

  #letGo(): void {
    clearTimeout(this.#timer);
    this.#off?.();
  }
}
