import type { ServiceRun } from "../core/background-service.js";
import { delay, isAborted, onAbort } from "../core/deadline.js";
import { jitter } from "../core/retry.js";
import type { Relay } from "./relay.js";
import type { RelayTurn } from "./relay-turn.js";

/** How long a relay waits at most after passes that failed. */
const maxFailurePauseInMs = 60_000;

/** What the relay of one instance needs. */
export interface RelayLoopParts {
  readonly relay: Relay;
  readonly turn: RelayTurn;
  readonly pollIntervalInMs: number;
  readonly onError: (error: unknown) => void;
}

/** The relay of one instance, from start to stop: a pass in each interval, if it is the turn of this instance. */
export class RelayLoop implements ServiceRun {
  readonly #parts: RelayLoopParts;
  readonly #stopped = new AbortController();
  readonly #hurried = new AbortController();
  readonly #ended: Promise<void>;

  constructor(parts: RelayLoopParts) {
    this.#parts = parts;
    this.#ended = this.#relayUntilStopped();
  }

  async stop(hurry: AbortSignal): Promise<void> {
    this.#stopped.abort(new DOMException("The outbox was stopped.", "AbortError"));
    const off = onAbort(hurry, () => this.#hurried.abort(new DOMException("The outbox was stopped.", "AbortError")));
    await this.#ended;
    off();
  }

  /** Never rejects. */
  async #relayUntilStopped(): Promise<void> {
    const { turn, pollIntervalInMs, onError } = this.#parts;
    const { signal: stopped } = this.#stopped;
    let failures = 0;
    while (!isAborted(stopped)) {
      let isIncomplete = false;
      try {
        isIncomplete = await this.#relayOnce();
        failures = 0;
      } catch (error) {
        failures++;
        if (!isAborted(stopped)) onError(error);
        await turn.yield(this.#hurried.signal);
      }
      const pauseInMs = Math.min(Math.max(maxFailurePauseInMs, pollIntervalInMs), pollIntervalInMs * 2 ** Math.min(failures, 10));
      if (!isIncomplete) await delay(jitter(pauseInMs, 0.2), stopped).catch(() => undefined);
    }
    await turn.end(this.#hurried.signal);
  }

  /** Returns whether there is more that could be sent at once. */
  async #relayOnce(): Promise<boolean> {
    const { relay, turn } = this.#parts;
    if (!(await turn.isMine(this.#stopped.signal))) return false;
    const { failed, isIncomplete } = await relay.pass({ abortSignal: this.#hurried.signal }, this.#stopped.signal);
    // Another instance may have the client, the credentials or the network that this one lacks.
    if (failed > 0) await turn.yield(this.#hurried.signal);
    return isIncomplete;
  }
}
