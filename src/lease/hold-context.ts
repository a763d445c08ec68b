import { createAsyncContext } from "../core/async-context.js";
import type { AsyncContext } from "../core/async-context.js";

/** A lease or lock that a function runs under. */
export interface Hold {
  /** The URL of what is leased, without the query: identifies it for all clients of this process. */
  readonly url: string;
  /** Whether it is held at this moment: work that the function started may continue after the release. */
  isHeld(): boolean;
}

interface HeldBy {
  readonly call: string;
  readonly hold: Hold;
}

/** What the functions around the current call hold. Created at first use: a module has no side effects. */
let context: AsyncContext<readonly HeldBy[]> | undefined;

/** Runs the function of a `with…` call. `call` names that call in the error of a nested one. */
export function runHolding<R>(call: string, holds: readonly Hold[], fn: () => R): R {
  context ??= createAsyncContext();
  return context.run([...(context.get() ?? []), ...holds.map((hold) => ({ call, hold }))], fn);
}

/**
 * Throws if the current call runs inside a function that holds the lease: the call would wait for a release that waits for the
 * call. Detected by async context, so the lease of another caller is never mistaken for that of the enclosing function.
 */
export function rejectNested(call: string, url: string, what: string, advice: string): void {
  const outer = context?.get()?.find(({ hold }) => hold.url === url && hold.isHeld());
  if (!outer) return;
  throw new TypeError(
    `${call} would wait forever: the ${outer.call} around it holds ${what}, and releases it only after ${call} has ended. ` +
      `${advice}, or move ${call} out of the function of ${outer.call}.`,
  );
}
