/** A method of a client that no test of this fake needs. */
export function notFaked(...args: readonly unknown[]): never {
  throw new Error(`not part of this fake: a call with ${args.length} arguments`);
}
