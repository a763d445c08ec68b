import type { VirtualTime } from "../time/virtual-time.js";
import { Resources } from "./resources.js";
import { Throttle } from "./throttle.js";

/** How a client of the SDK tries again by itself. */
export interface RetryPolicy {
  readonly tries: number;
  /** Before the second try, the third, ... */
  readonly waitInMs: (triesSoFar: number, random: () => number) => number;
}

const storageRetries: RetryPolicy = { tries: 4, waitInMs: (tries) => [0, 4_000, 12_000][tries - 1] ?? 12_000 };
const tableRetries: RetryPolicy = { tries: 4, waitInMs: (tries, random) => 1_000 * 2 ** (tries - 1) * (0.75 + random() / 2) };

export type ServiceKind = "blob" | "table" | "queue";

/** What a service counts. */
export interface Counts {
  /** Sends that arrived, refused ones included. */
  requests: number;
  /** Refused with 503, as there were too many. */
  throttled: number;
}

/** One storage service: what all its clients share. */
export class Backend {
  readonly kind: ServiceKind;
  readonly time: VirtualTime;
  readonly retries: RetryPolicy;
  readonly resources = new Resources();
  readonly counts: Counts = { requests: 0, throttled: 0 };
  /** How many requests went wrong on their way. */
  faults = 0;
  readonly #limitPerSecond: number;
  readonly #throttles = new Map<string, Throttle>();
  #etags = 0;

  /** `limitPerSecond`: for each blob, table or queue. */
  constructor(kind: ServiceKind, time: VirtualTime, limitPerSecond = Infinity) {
    this.kind = kind;
    this.time = time;
    this.retries = kind === "table" ? tableRetries : storageRetries;
    this.#limitPerSecond = limitPerSecond;
  }

  newETag(): number {
    return ++this.#etags;
  }

  /** Whether a request that arrives now is one too many. */
  refuses(resource: string): boolean {
    this.counts.requests++;
    if (this.#limitPerSecond === Infinity) return false;
    let throttle = this.#throttles.get(resource);
    if (!throttle) this.#throttles.set(resource, (throttle = new Throttle(this.#limitPerSecond)));
    if (throttle.admits(this.time.now)) return false;
    this.counts.throttled++;
    return true;
  }
}
