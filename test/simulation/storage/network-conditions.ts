import type { Random } from "../time/seeded-random.js";

/** What may happen to one send of a request. */
export type Fate =
  | "ok"
  /** Never arrives; the connection is reset. */
  | "request lost"
  /** Carried out; the connection is reset. */
  | "answer lost"
  /** Refused with 503. */
  | "busy"
  /** Carried out, and answered with 500 all the same. */
  | "failed after commit"
  /** Never arrives, and nobody says so. */
  | "silence"
  /** Carried out, and nobody says so. */
  | "silence after commit"
  /** The connection is reset, and the request arrives much later. */
  | "straggler";

/** How a network is: how long a way takes, and how often something goes wrong. */
export interface NetworkConditions {
  /** A request and its answer together, in milliseconds. */
  readonly latency: { readonly min: number; readonly max: number };
  /** How often each fate befalls a send, from 0 to 1; the rest is well. */
  readonly faults: Readonly<Partial<Record<Exclude<Fate, "ok">, number>>>;
}

export const calm: NetworkConditions = { latency: { min: 5, max: 50 }, faults: {} };

/** Everything goes wrong now and then: together a share of `often` of all sends. */
export function stormy(often: number): NetworkConditions {
  const part = often / 16;
  return {
    ...calm,
    faults: {
      "answer lost": 6 * part,
      "request lost": 2 * part,
      busy: 2 * part,
      "failed after commit": 2 * part,
      silence: part,
      "silence after commit": part,
      straggler: 2 * part,
    },
  };
}

export function drawFate({ faults }: NetworkConditions, random: Random): Fate {
  let left = random();
  for (const [fate, share] of Object.entries(faults)) {
    left -= share;
    if (left < 0) return fate as Fate;
  }
  return "ok";
}
