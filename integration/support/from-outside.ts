import { AsyncResource } from "node:async_hooks";

/** The context of the module, which no call of the library surrounds. */
const outside = new AsyncResource("outside");

/**
 * Calls the function outside of the calls around it, as another process would: for a test that interferes with an update from inside
 * its mutator, which the library would otherwise reject as a nested update.
 */
export function fromOutside<R>(fn: () => Promise<R>): Promise<R> {
  return new Promise((resolve, reject) => {
    outside.runInAsyncScope(() => setImmediate(() => void fn().then(resolve, reject)));
  });
}
