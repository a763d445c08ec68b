/**
 * Returned by a mutator: delete the target, unless another client has changed it.
 *
 * @example
 * ```ts
 * await optimisticUpdate(customer, (draft) => (draft.visits === 0 ? DELETE : undefined));
 * ```
 */
export const DELETE: unique symbol = Symbol.for("azure-storage-concurrency.delete") as typeof DELETE;

/** The second argument of a {@link Mutator}. */
export interface MutatorContext {
  /** 1 on the first run. A mutator runs again after a conflict. */
  readonly attempt: number;
  /** Aborts when the call is cancelled, when its time is over, or when its lease is lost. */
  readonly signal: AbortSignal;
}

/** `T` with everything readonly, so that a {@link Mutator} can return frozen values and literals. */
export type ReadonlyValue<T> = T extends Date | Uint8Array | ((...args: never[]) => unknown)
  ? T
  : T extends readonly (infer U)[]
    ? readonly ReadonlyValue<U>[]
    : T extends object
      ? { readonly [K in keyof T]: ReadonlyValue<T[K]> }
      : T;

/** What a {@link Mutator} may return: nothing (it changed the draft in place), a new value, or {@link DELETE}. */
export type MutatorResult<T> = NoInfer<ReadonlyValue<T>> | typeof DELETE | undefined | void; // eslint-disable-line @typescript-eslint/no-invalid-void-type -- a mutator that changes in place returns nothing

/**
 * Changes a private copy of the value in place, or returns a new value, or {@link DELETE}. It may be async. It may run several
 * times, so it should only compute; its effect is committed once. Throwing cancels the update.
 *
 * @example
 * ```ts
 * const increment: Mutator<{ count: number }> = (draft) => { draft.count++; };
 * ```
 */
export type Mutator<T> = (draft: T, context: MutatorContext) => MutatorResult<T> | Promise<MutatorResult<T>>;

/**
 * The result of {@link optimisticUpdate} and {@link leasedUpdate}.
 *
 * `value` is the value after this call; for `"deleted"`, the value before it. It belongs to the caller. `attempts` is how often the
 * mutator ran: 0 if the journal shows that an earlier call with the same `operationId` was applied. `etag` is the ETag of exactly this
 * `value`. If another update was committed on top of this one, in the same write or before this one's lost response was resolved, it
 * does not match any more. A deleted target has no ETag.
 */
export type UpdateResult<T> = {
  readonly value: T;
  readonly attempts: number;
  readonly operationId: string;
} & ({ readonly outcome: "created" | "updated" | "unchanged"; readonly etag: string } | { readonly outcome: "deleted"; readonly etag?: undefined });
