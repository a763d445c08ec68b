/** Never more than this are kept. */
const maxIdle = 16;
/** A client may derive other signals from one, which the platform keeps track of for as long as it exists. */
const maxUses = 1_000;
const idle: SendSignal[] = [];

/**
 * The signal of an SDK call, which counts its `abort` listeners: see `countSends`. In Node 20 a native signal takes 2 µs to create, has a
 * hidden class of its own, and so takes several µs more wherever it is used. A call that succeeded with one send leaves its signal to a
 * later call, if it was not aborted and no listener is left on it. Only where {@link RequestLimits.reusesSignal} says so: a client that keeps
 * the signal of a call that has ended would see the abort of the later one.
 */
export class SendSignal {
  readonly controller: AbortController = new AbortController();
  readonly signal: AbortSignal = this.controller.signal;
  /** How many listeners were added by this call. */
  added = 0;
  onAdded: (() => void) | undefined;
  readonly #listeners = new Set<unknown>();
  /** A listener was added in a way that does not show when it is removed. */
  #isUnclear = false;
  #uses = 1;

  private constructor() {
    const { signal } = this;
    const add = signal.addEventListener; // eslint-disable-line @typescript-eslint/unbound-method -- called on the signal below
    const remove = signal.removeEventListener; // eslint-disable-line @typescript-eslint/unbound-method -- called on the signal below
    signal.addEventListener = (...args: Parameters<typeof add>): void => {
      add.apply(signal, args);
      const [type, listener, options] = args;
      if (options === undefined) this.#listeners.add(listener);
      else this.#isUnclear = true;
      if (type !== "abort") return;
      this.added++;
      // After the listener was added, so that it is called: it ends the delay or the request that it belongs to.
      this.onAdded?.();
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>): void => {
      remove.apply(signal, args);
      if (args[2] === undefined) this.#listeners.delete(args[1]);
    };
  }

  /** One that is free, or a new one. */
  static take(mayReuse: boolean): SendSignal {
    if (!mayReuse) return new SendSignal();
    // The SDK removes its listeners a moment after its call has ended.
    for (let free = idle.pop(); free; free = idle.pop()) if (free.#listeners.size === 0) return free.#again();
    return new SendSignal();
  }

  #again(): this {
    this.added = 0;
    this.#uses++;
    return this;
  }

  /** The call has ended. `succeeded`: nothing of it goes on. */
  free(succeeded: boolean): void {
    this.onAdded = undefined;
    const isReusable = succeeded && this.added <= 1 && !this.#isUnclear && !this.signal.aborted && this.#uses < maxUses;
    if (isReusable && idle.length < maxIdle) idle.push(this);
  }
}
