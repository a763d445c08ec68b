/** A timer of the virtual clock; stands for what `setTimeout` returns. */
export class VirtualTimer {
  readonly at: number;
  readonly order: number;
  /** Undefined: cleared, or it has fired. It stays in the heap until its time: nobody looks for it there. */
  callback: (() => void) | undefined;

  constructor(at: number, order: number, callback: () => void) {
    this.at = at;
    this.order = order;
    this.callback = callback;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }
}

/** A binary heap: the next timer first, and of those for the same moment the one that was set first. */
export class TimerHeap {
  readonly #timers: VirtualTimer[] = [];

  push(timer: VirtualTimer): void {
    const timers = this.#timers;
    let at = timers.length;
    timers.push(timer);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = timers[parent]!;
      if (!isBefore(timer, above)) break;
      timers[at] = above;
      at = parent;
    }
    timers[at] = timer;
  }

  /** The next timer that has not been cleared. */
  pop(): VirtualTimer | undefined {
    for (let next = this.#take(); next; next = this.#take()) if (next.callback) return next;
    return undefined;
  }

  #take(): VirtualTimer | undefined {
    const timers = this.#timers;
    const first = timers[0];
    const last = timers.pop();
    if (!last || last === first) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= timers.length) break;
      if (child + 1 < timers.length && isBefore(timers[child + 1]!, timers[child]!)) child++;
      if (!isBefore(timers[child]!, last)) break;
      timers[at] = timers[child]!;
      at = child;
    }
    timers[at] = last;
    return first;
  }
}

function isBefore(a: VirtualTimer, b: VirtualTimer): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
