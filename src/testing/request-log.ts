import type { LoggedRequest, RequestRecord } from "./request-record.js";

interface Waiter {
  readonly matches: (request: LoggedRequest) => boolean;
  readonly resolve: (request: LoggedRequest) => void;
  readonly reject: (reason: unknown) => void;
}

/** The requests to the proxy since it was started or reset: exact counters, and the latest requests. */
export class RequestLog {
  requests = 0;
  forwarded = 0;
  readonly fired: Map<string, number> = new Map<string, number>();
  readonly #limit: number;
  readonly #waiters = new Set<Waiter>();
  #entries: RequestRecord[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  get entries(): readonly LoggedRequest[] {
    return this.#limit === 0 ? [] : this.#entries.slice(-this.#limit);
  }

  add(record: RequestRecord): void {
    this.requests += 1;
    this.#entries.push(record);
    // Truncated in large steps: removing one by one would move the whole array for each request.
    if (this.#entries.length >= 2 * this.#limit + 64) this.#entries = this.#limit === 0 ? [] : this.#entries.slice(-this.#limit);
    this.touch(record);
  }

  /** To be called after each change of a record. */
  touch(record: RequestRecord): void {
    for (const waiter of this.#waiters) if (waiter.matches(record)) waiter.resolve(record);
  }

  countFired(record: RequestRecord, ruleName: string): void {
    record.ruleNames.push(ruleName);
    this.fired.set(ruleName, (this.fired.get(ruleName) ?? 0) + 1);
    this.touch(record);
  }

  count(matches: (request: LoggedRequest) => boolean): number {
    // A number that is silently too small would make a test pass that should not.
    if (this.requests > this.#limit) {
      throw new RangeError(`only the last ${this.#limit} of ${this.requests} requests are in the log: raise logLimit or reset() earlier`);
    }
    return this.#entries.filter(matches).length;
  }

  async waitFor(matches: (request: LoggedRequest) => boolean, timeoutInMs: number, abortSignal?: AbortSignal): Promise<LoggedRequest> {
    abortSignal?.throwIfAborted();
    const logged = this.entries.find(matches);
    if (logged !== undefined) return logged;

    let waiter: Waiter | undefined;
    let timer: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    try {
      return await new Promise<LoggedRequest>((resolve, reject) => {
        waiter = { matches, resolve, reject };
        onAbort = (): void => reject(abortSignal?.reason as Error);
        timer = setTimeout(() => reject(new Error(`no such request came through the fault proxy within ${timeoutInMs} ms`)), timeoutInMs);
        abortSignal?.addEventListener("abort", onAbort);
        this.#waiters.add(waiter);
      });
    } finally {
      clearTimeout(timer);
      if (onAbort !== undefined) abortSignal?.removeEventListener("abort", onAbort);
      if (waiter !== undefined) this.#waiters.delete(waiter);
    }
  }

  close(reason: Error): void {
    for (const waiter of this.#waiters) waiter.reject(reason);
  }
}
