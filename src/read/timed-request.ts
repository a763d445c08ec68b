import { TimeLimit } from "../core/time-limit.js";

/** How many tries in a row may bring nothing. */
export const maxFruitlessTries = 5;

/** A request and its body took longer than they were given. */
export class TryTimeout extends Error {
  override readonly name = "TryTimeout";
}

/** The time and the cancellation of one request whose body is read after its answer has come. */
export class TimedRequest {
  readonly #controller = new AbortController();
  readonly #limit: TimeLimit;

  constructor(limitInMs: number, parent: AbortSignal) {
    const tooLate = (): Error => new TryTimeout(`not complete within ${limitInMs} ms`);
    this.#limit = new TimeLimit(limitInMs, parent, tooLate, (reason) => this.#controller.abort(reason));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  during<R>(promise: Promise<R>): Promise<R> {
    return this.#limit.during(promise);
  }

  /** Lets go of all. What is still on its way is cancelled. */
  end(how: "complete" | "broken"): void {
    this.#limit.letGo();
    if (how === "broken") this.#controller.abort();
  }
}
