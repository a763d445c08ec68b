import { seededRandom } from "./seeded-random.js";
import type { Random } from "./seeded-random.js";
import { TimerHeap, VirtualTimer } from "./timer-heap.js";

/** A time of day like any other. */
const dayOne = Date.UTC(2030, 0, 1);

/** How many events are run in one turn of the real event loop. */
const eventsPerTurn = 64;

const immediately = setImmediate;

/**
 * A clock that jumps from one timer to the next. While `run` runs, the globals that tell the time, set timers or throw
 * dice are its own, so that what happens depends on the seed alone. Between two timers everything that follows from the
 * first has happened: Node runs all microtasks between two immediates.
 */
export class VirtualTime {
  readonly random: Random;
  readonly #timers = new TimerHeap();
  #now = 0;
  #order = 0;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

  /** Milliseconds since the beginning. */
  get now(): number {
    return this.#now;
  }

  get date(): Date {
    return new Date(dayOne + this.#now);
  }

  after(ms: number, callback: () => void): VirtualTimer {
    const timer = new VirtualTimer(this.#now + (ms > 0 ? ms : 0), this.#order++, callback);
    this.#timers.push(timer);
    return timer;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  /** Runs `main` on this clock, until it has ended. What is left then never happens. */
  async run<R>(main: () => Promise<R>): Promise<R> {
    const restore = this.#takeOverGlobals();
    try {
      return await this.#drive(main());
    } finally {
      restore();
    }
  }

  #drive<R>(running: Promise<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      let ended = false;
      const end = (settle: () => void): void => {
        ended = true;
        settle();
      };
      const fail = (error: unknown): void => {
        const thrown = error as Error;
        end(() => reject(thrown));
      };
      running.then((result) => end(() => resolve(result)), (error: unknown) => fail(error));
      const step = (): void => {
        if (ended) return;
        const timer = this.#timers.pop();
        if (!timer) {
          end(() => reject(new Error("nothing will ever happen again, but the run has not ended")));
          return;
        }
        const { callback } = timer;
        this.#now = timer.at;
        timer.callback = undefined;
        try {
          callback?.();
        } catch (error) {
          fail(error);
        }
      };
      const turn = (): void => {
        if (ended) return;
        for (let i = 0; i < eventsPerTurn; i++) immediately(step);
        immediately(turn);
      };
      // First everything that needs no time.
      immediately(turn);
    });
  }

  #takeOverGlobals(): () => void {
    const real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
    const clock = { now: performance.now.bind(performance) };
    const { random } = Math;
    const RealDate = Date;
    const dates = { now: Date.now };
    globalThis.setTimeout = ((callback: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
      this.after(ms, args.length > 0 ? () => callback(...args) : callback)) as unknown as typeof setTimeout;
    globalThis.clearTimeout = ((timer: unknown) => {
      if (timer instanceof VirtualTimer) timer.callback = undefined;
      else real.clearTimeout(timer as undefined);
    });
    performance.now = () => this.#now;
    Date.now = () => dayOne + this.#now;
    globalThis.Date = new Proxy(RealDate, {
      construct: (target, args: unknown[], newTarget) => Reflect.construct(target, args.length > 0 ? args : [dayOne + this.#now], newTarget) as Date,
    });
    Math.random = this.random;
    return () => {
      Object.assign(globalThis, real);
      Object.assign(performance, clock);
      globalThis.Date = Object.assign(RealDate, dates);
      Math.random = random;
    };
  }
}
