import { AsyncResource } from "node:async_hooks";

/**
 * Calls the function outside of the calls around it, as another process would: for a test that interferes with an update from inside
 * its mutator, which the library would otherwise reject as a nested update.
 */
export const fromOutside: <R>(fn: () => Promise<R>) => Promise<R> = AsyncResource.bind(
  <R>(fn: () => Promise<R>) => new Promise<R>((resolve, reject) => {
    setImmediate(() => void fn().then(resolve, reject));
  }),
) as <R>(fn: () => Promise<R>) => Promise<R>;
