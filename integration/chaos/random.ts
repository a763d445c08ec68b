import { seededRandom } from "../../test/simulation/time/seeded-random.js";

/** Numbers that look random and are the same for the same seed. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** A whole number, both ends included. */
  between(low: number, high: number): number;
  pick<T>(items: readonly [T, ...T[]]): T;
  /** Another one, that depends on this one's seed and the name only, not on how much was drawn. */
  fork(name: string): Random;
}

export function randomFrom(seed: number): Random {
  const next = seededRandom(seed);
  const between = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    pick: (items) => items[between(0, items.length - 1)] ?? items[0],
    fork: (name) => randomFrom(new TextEncoder().encode(name).reduce((hash, byte) => seededRandom(hash + byte)() * 2 ** 32, seed)),
  };
}
