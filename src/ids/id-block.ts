import type { BlockBlobLike } from "../clients.js";
import { IdCounterError } from "../errors.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import type { OptimisticUpdateOptions } from "../update/options.js";
import type { UpdateTarget } from "../update/target.js";

/** What is stored. Other properties of the document or entity are left alone. */
export interface IdCounter {
  /** The first id that nobody has been given. A `bigint` (Int64) in a table, where a number would end at 2^31. */
  next: number | bigint;
}

/** Ids from `from` up to but without `to`, which belong to this process alone. */
export interface IdBlock {
  from: number;
  readonly to: number;
}

/**
 * Moves the counter on by `size`, and returns what it passed over. If it cannot be known whether it was moved, it is moved
 * again: ids that nobody uses are a gap, ids that two use are the one thing that must not be.
 */
export async function reserveBlock(
  target: UpdateTarget<IdCounter> | BlockBlobLike,
  size: number,
  start: number | undefined,
  url: string,
  options: Pick<OptimisticUpdateOptions<IdCounter>, "abortSignal" | "timeoutInMs">,
): Promise<IdBlock> {
  const inTable = "kind" in target && target.kind.startsWith("table");
  const stored = (next: number): number | bigint => (inTable ? BigInt(next) : next);
  const { value } = await optimisticUpdate<IdCounter>(
    target,
    (counter) => {
      const next = firstFree(counter, url);
      if (!Number.isSafeInteger(next + size)) {
        throw new IdCounterError(`${url}: ${size} ids from ${next} on would go beyond Number.MAX_SAFE_INTEGER`, { url, reason: "exhausted" });
      }
      counter.next = stored(next + size);
    },
    { ...options, onUnknown: "retry", ...(start !== undefined && { initial: { next: stored(start) } }) },
  );
  const to = Number(value.next);
  return { from: to - size, to };
}

function firstFree(counter: IdCounter, url: string): number {
  const next = (counter as Partial<IdCounter> | null)?.next;
  const number = typeof next === "bigint" ? Number(next) : next;
  if (!Number.isSafeInteger(number) || number === undefined || number < 0) {
    throw new IdCounterError(`${url} is no counter of ids: "next" is not a whole number`, { url, reason: "malformed" });
  }
  return number;
}
