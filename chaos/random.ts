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
  let state = seed >>> 0;
  // A Weyl sequence, hashed: small, and good enough to choose victims with.
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    return mix(state) / 2 ** 32;
  };
  const between = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    pick: (items) => items[between(0, items.length - 1)] ?? items[0],
    fork: (name) => randomFrom([...new TextEncoder().encode(name)].reduce((hash, byte) => mix((hash + byte) >>> 0), mix(seed >>> 0))),
  };
}

function mix(value: number): number {
  let x = value;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}
