import type { AbortSignalLike } from "../clients.js";

/** Returned by a mutator: delete the target, provided that nobody changed it. */
export const remove: unique symbol = Symbol.for("azure-storage-concurrency.remove") as typeof remove;

/** What a mutator is told besides the value. */
export interface MutatorContext {
  /** 1 on the first run; a mutator runs again when a race was lost. */
  readonly attempt: number;
  /** The caller's own signal. */
  readonly abortSignal: AbortSignalLike | undefined;
}

/**
 * Changes a private copy of the value in place, or returns a new one, or {@link remove}. It may be async. It may run
 * several times, but its effect lands once; it should do nothing else than compute. Throwing cancels the update.
 */
export type Mutator<T> = (
  draft: T,
  context: MutatorContext,
) => T | typeof remove | undefined | void | Promise<T | typeof remove | undefined | void>; // eslint-disable-line @typescript-eslint/no-invalid-void-type -- a mutator that changes in place returns nothing
