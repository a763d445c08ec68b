import type { AbortSignalLike } from "../clients.js";
import { abortReason, onAbort, throwIfAborted } from "./abort.js";

/** Runs requests under the caller's signal. When that aborts, it is the caller's reason that counts, not the SDK's error. */
export async function withSignal<R>(caller: AbortSignalLike | undefined, run: (abortSignal: AbortSignal) => Promise<R>): Promise<R> {
  throwIfAborted(caller);
  const controller = new AbortController();
  const off = onAbort(caller, () => caller && controller.abort(abortReason(caller)));
  try {
    return await run(controller.signal);
  } catch (error) {
    throw caller?.aborted ? abortReason(caller) : error;
  } finally {
    off();
  }
}
