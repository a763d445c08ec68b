/** A sample that does not see what it promises fails: the tour is a test as well. */
export function check(holds: boolean, promise: string): asserts holds {
  if (!holds) throw new Error(`this does not hold: ${promise}`);
}
