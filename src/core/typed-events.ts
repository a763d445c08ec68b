import { callListener, FailureReports } from "./failures.js";
import { RequestTimeoutError } from "./deadline.js";
import { errorLabel, errorType, logger } from "./telemetry.js";
import { createError, OperationTimeoutError, quotedText } from "../errors.js";

/**
 * Typed events of a component. A listener gets one argument, the detail of the event. A listener that throws, or whose promise
 * rejects, has no effect on the component. An `error` event without a listener is reported by `console.warn`, once for each cause, and so is
 * another event that reports a failure, if neither that event nor `error` has a listener; {@link reportFailuresTo} redirects the reports.
 * @example
 * ```ts
 * consumer.on("error", (error) => console.error(error));
 * consumer.once("completed", ({ messageId }) => console.log(messageId));
 * ```
 */
export interface TypedEvents<E> {
  /** Adds a listener. A listener that is added twice is called twice. */
  on<K extends keyof E & string>(event: K, listener: (detail: E[K]) => void): this;
  /** Adds a listener for the next event only. */
  once<K extends keyof E & string>(event: K, listener: (detail: E[K]) => void): this;
  /** Removes a listener, however it was added. */
  off<K extends keyof E & string>(event: K, listener: (detail: E[K]) => void): this;
}

/** The names of all events. The compiler checks that none is missing, and that there is no other. */
export type EventNames<E> = { readonly [name in keyof E]: 1 };

type Listener = (detail: never) => unknown;

/** The listeners of one component. */
export class EventDispatcher<E> {
  readonly #component: string;
  readonly #names: EventNames<E>;
  readonly #listeners = new Map<string, readonly { readonly listener: Listener; readonly once: boolean }[]>();
  readonly #reports = new FailureReports();

  /** @param component - Names the component in the log, for example `QueueConsumer jobs`. */
  constructor(component: string, names: EventNames<E>) {
    this.#component = component;
    this.#names = names;
  }

  add<K extends keyof E & string>(event: K, listener: (detail: E[K]) => void, once = false): void {
    this.#check(event, listener);
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), { listener, once }]);
  }

  remove<K extends keyof E & string>(event: K, listener: (detail: E[K]) => void): void {
    this.#check(event, listener);
    const index = this.#listeners.get(event)?.findLastIndex((entry) => entry.listener === listener) ?? -1;
    if (index >= 0) this.#listeners.set(event, (this.#listeners.get(event) ?? []).toSpliced(index, 1));
  }

  /** @param failure - What the event reports, if it is a failure: it must not pass unnoticed. */
  emit<K extends keyof E & string>(event: K, detail: E[K], failure: unknown = event === "error" ? detail : undefined): void {
    if (event === "error" && detail instanceof RequestTimeoutError) {
      // Only the library knows that class. What the request was about is in the message; whether it was carried out is not known.
      const error: unknown = createError(OperationTimeoutError, `${this.#component}: ${detail.message}.`, { url: undefined, elapsedInMs: detail.timeoutInMs, committed: "unknown", cause: detail });
      this.emit(event, error as E[K]);
      return;
    }
    const entries = this.#listeners.get(event) ?? [];
    if (failure !== undefined && entries.length === 0 && !this.#listeners.get("error")?.length) this.#report(failure);
    for (const entry of entries) {
      if (entry.once) this.#listeners.set(event, (this.#listeners.get(event) ?? []).filter((other) => other !== entry));
      this.#call(event, entry.listener as (detail: E[K]) => unknown, detail);
    }
  }

  #call<D>(event: string, listener: (detail: D) => unknown, detail: D): void {
    callListener(listener, detail, (error) => {
      const message = `${this.#component}: a listener of "${event}" failed (${errorLabel(error)}). It had no effect on the component.`;
      logger.warning(message);
      this.#reports.report({ component: this.#component, message, error }, `${event} ${errorLabel(error)}`);
    });
  }

  #report(error: unknown): void {
    const message = `${this.#component} reported an error (${errorLabel(error)}), and no listener is registered. Add one with on("error", listener). Further errors of this kind are not reported.`;
    this.#reports.report({ component: this.#component, message, error });
  }

  // A caller without TypeScript may pass anything; a listener of a misspelt event would never be called.
  #check(event: string, listener: unknown): void {
    if (typeof event !== "string" || !Object.hasOwn(this.#names, event)) {
      throw new TypeError(`Unknown event ${quotedText(event)}. Known events: ${Object.keys(this.#names).join(", ")}`);
    }
    if (typeof listener !== "function") throw new TypeError(`The listener of ${JSON.stringify(event)} must be a function, not ${errorType(listener)}`);
  }
}
