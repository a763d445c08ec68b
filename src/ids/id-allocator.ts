import type { BlockBlobLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import { abortReason, onAbort, throwIfAborted } from "../core/deadline.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, IdCounterError, isConcurrencyError } from "../errors.js";
import type { Entity } from "../target/table-entity.js";
import type { AnyInput, UpdateTarget } from "../target/target.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import { checkTargetSettings, requireConditional, requireWritable, resolveTarget, updateDefaults } from "../update/options.js";
import type { OptimisticUpdateOptions } from "../update/options.js";

/** Options of {@link IdAllocator}. */
export interface IdAllocatorOptions {
  /**
   * How many ids are reserved at a time. A process that exits leaves a gap of up to twice as many.
   * @defaultValue 1_000: two requests for a thousand ids
   */
  blockSize?: number | undefined;
  /**
   * The very first id. Applies only if the counter does not exist yet.
   * @defaultValue 1: 0 is often a value for "none"
   */
  start?: number | undefined;
  /**
   * The next block is reserved in the background once less than this fraction of a block is left. 0: only when no id is left,
   * so that a caller has to wait.
   * @defaultValue 0.5: callers never wait, unless they use half a block during one request
   */
  prefetch?: number | undefined;
  /**
   * The time limit for reserving a block, including requests and delays.
   * @defaultValue 30_000: as for all calls
   */
  timeoutInMs?: number | undefined;
}

const optionNames: OptionNames<IdAllocatorOptions> = { blockSize: 1, start: 1, prefetch: 1, timeoutInMs: 1 };
const callNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };

/** Where the counter is stored: see {@link IdAllocator}. An entity has its keys besides the counter. */
export type IdCounterTarget = UpdateTarget<IdCounter> | UpdateTarget<Entity<IdCounter>, IdCounter> | BlockBlobLike;

/** How many ids one call can allocate: more would not fit into an array, and the counter would have advanced in vain. */
const maxCount = 1_000_000;

const defaults = Object.freeze({ blockSize: 1_000, start: 1, prefetch: 0.5 });

interface Waiter {
  readonly count: number;
  resolve(ids: number[]): void;
  reject(error: unknown): void;
}

/**
 * Allocates integers that are unique across any number of processes, from one counter in a blob or an entity. Ids are reserved
 * in blocks, so hardly any id costs a request. The ids of one allocator increase; ids of two allocators are ordered by block
 * only. Ids that a process has reserved and not used when it exits are a gap.
 *
 * Ids are numbers, not bigints: they end at 2^53, after 285 years of a million ids per second.
 *
 * A rejected `next()` has allocated nothing: it is safe to call it again. If the counter was reset or deleted, every call is
 * rejected until the counter is at or above what this allocator has seen; it does not advance such a counter.
 *
 * @example
 * ```ts
 * const ids = new IdAllocator(container.getBlockBlobClient("order-ids.json"));
 * const id = await ids.next();
 * ```
 */
export class IdAllocator implements Disposable {
  readonly #target: IdCounterTarget;
  readonly #url: string;
  readonly #blockSize: number;
  readonly #start: number;
  readonly #prefetchBelow: number;
  readonly #timeoutInMs: number;
  #blocks: IdBlock[] = [];
  #available = 0;
  /** The end of the last block that was reserved. A counter below it was reset. */
  #end: number | undefined;
  /** In order. Not a list: thousands of callers may leave one after the other. */
  readonly #waiters = new Set<Waiter>();
  /** The reservation in flight, if there is one. `background`: no caller was waiting when it began. */
  #reservation: { readonly io: AbortController; readonly background: boolean } | undefined;
  #prefetchFailed = false;
  #closed = false;

  /**
   * Sends no request: the first `next` reads the counter, or creates it.
   * @param target - `jsonBlob<IdCounter>(...)`, `tableEntity<IdCounter>(...)`, or a block blob client. Created if it does not exist.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(target: IdCounterTarget, options: IdAllocatorOptions = {}) {
    checkOptions("IdAllocator", options, optionNames);
    const { blockSize = defaults.blockSize, start = defaults.start, prefetch = defaults.prefetch } = options;
    const adapter = resolveTarget<AnyInput>(target, checkTargetSettings({}));
    requireWritable(adapter, "IdAllocator");
    requireConditional(adapter, "IdAllocator");
    this.#url = redactUrl(adapter.url);
    this.#target = target;
    this.#blockSize = checkNumber("blockSize", blockSize, { min: 1, max: 2 ** 32, integer: true });
    this.#start = checkNumber("start", start, { min: 0, max: Number.MAX_SAFE_INTEGER, integer: true });
    this.#prefetchBelow = checkNumber("prefetch", prefetch, { min: 0, max: 1 }) * blockSize;
    this.#timeoutInMs = checkNumber("timeoutInMs", options.timeoutInMs ?? updateDefaults.timeoutInMs, { min: 1 });
  }

  /**
   * Allocates one id.
   * @throws {@link IdCounterError} if the counter cannot provide an id that is certainly new.
   * @throws {@link OperationTimeoutError} if no block could be reserved in time.
   */
  async next(options: CallOptions = {}): Promise<number> {
    checkOptions("IdAllocator.next", options, callNames);
    const [id] = await this.nextMany(1, options);
    return id as number;
  }

  /**
   * Allocates `count` ids, a million at most, in increasing order. They are not necessarily consecutive.
   * @throws `RangeError` if `count` is not a whole number from 0 to 1,000,000.
   * @throws {@link IdCounterError} if the counter cannot provide ids that are certainly new.
   * @throws {@link OperationTimeoutError} if no block could be reserved in time.
   */
  async nextMany(count: number, options: CallOptions = {}): Promise<number[]> {
    checkOptions("IdAllocator.nextMany", options, callNames);
    checkNumber("count", count, { min: 0, max: maxCount, integer: true });
    const { abortSignal } = options;
    throwIfAborted(abortSignal);
    if (this.#closed) throw new TypeError("The allocator is closed.");
    if (this.#waiters.size === 0 && count <= this.#available) {
      const ids = this.#take(count);
      this.#refill();
      return ids;
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        count,
        resolve: (ids) => {
          off();
          resolve(ids);
        },
        reject: (error) => {
          off();
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
          reject(error);
        },
      };
      const off = onAbort(abortSignal, () => {
        waiter.reject(abortSignal && abortReason(abortSignal));
        this.#removeWaiter(waiter);
      });
      this.#waiters.add(waiter);
      this.#refill();
    });
  }

  /** Ends the background work, and rejects waiting and later calls. The ids that are left become a gap. */
  close(): void {
    this.#closed = true;
    this.#reservation?.io.abort();
    this.#rejectAll(new TypeError("The allocator is closed."));
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #take(count: number): number[] {
    const ids: number[] = [];
    for (let [block] = this.#blocks; block && ids.length < count; [block] = this.#blocks) {
      while (block.from < block.to && ids.length < count) ids.push(block.from++);
      if (block.from === block.to) this.#blocks.shift();
    }
    this.#available -= count;
    return ids;
  }

  /** Reserves a block if a caller waits for it, or will soon. One at a time, so that ids increase. */
  #refill(): void {
    if (this.#reservation || this.#closed) return;
    let missing = -this.#available;
    for (const { count } of this.#waiters) missing += count;
    const background = missing <= 0;
    if (background && (this.#prefetchFailed || this.#available >= this.#prefetchBelow)) return;
    this.#reservation = { io: new AbortController(), background };
    void this.#reserve(Math.max(this.#blockSize, missing), this.#reservation);
  }

  async #reserve(size: number, reservation: { readonly io: AbortController; readonly background: boolean }): Promise<void> {
    try {
      const options = { abortSignal: reservation.io.signal, timeoutInMs: this.#timeoutInMs };
      const block = await reserveBlock(this.#target, size, { start: this.#start, end: this.#end }, this.#url, options);
      this.#end = block.to;
      this.#blocks.push(block);
      this.#available += size;
      this.#prefetchFailed = false;
    } catch (error) {
      if (!reservation.io.signal.aborted) logger.warning(`no ids could be reserved at ${this.#url}: ${errorLabel(error)}`);
      this.#prefetchFailed = true;
      if (isReset(error)) this.#dropBlocks();
      // A caller that came while it ran in the background, or after its callers had left, gets a reservation of its own.
      if (!reservation.background && !reservation.io.signal.aborted) this.#rejectAll(error);
    }
    this.#reservation = undefined;
    this.#serve();
    this.#refill();
  }

  /**
   * The counter was reset or deleted: another process may get the same ids from it. So every later call has to reserve a block, and
   * is rejected until the counter is repaired. The ids that are dropped are a gap.
   */
  #dropBlocks(): void {
    this.#blocks = [];
    this.#available = 0;
  }

  /** First in, first out, even if a later waiter needs fewer ids. */
  #serve(): void {
    for (const first of this.#waiters) {
      if (first.count > this.#available) return;
      this.#waiters.delete(first);
      first.resolve(this.#take(first.count));
    }
  }

  #removeWaiter(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size === 0 && this.#reservation?.background === false) this.#reservation.io.abort();
    // Waiters behind it may need fewer ids.
    this.#serve();
  }

  #rejectAll(error: unknown): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of waiters) waiter.reject(error);
  }
}

/** The stored counter of an {@link IdAllocator}. Other properties of the document or entity are kept. */
export interface IdCounter {
  /** The first id that has not been reserved. In a table an Edm.Double, as an Int32 would end at 2^31; a `bigint` (Int64) is accepted, too. */
  next: number | bigint;
}

/** The ids from `from` (inclusive) to `to` (exclusive), which belong to this process alone. */
interface IdBlock {
  from: number;
  readonly to: number;
}

/** What an allocator knows of its counter. */
interface KnownCounter {
  /** The first id, if the counter does not exist. */
  readonly start: number;
  /** The end of the last block that the allocator has reserved. Undefined: none so far. */
  readonly end: number | undefined;
}

/**
 * Advances the counter by `size`, and returns the ids in between. If the outcome is unknown, the counter is advanced again: an
 * unused id is only a gap, but an id that is allocated twice would break the guarantee.
 *
 * A counter that was reset is not advanced: otherwise it would pass the ids of this allocator after some calls, and count as
 * repaired, although other processes have been given ids beyond them.
 */
async function reserveBlock(
  target: IdCounterTarget,
  size: number,
  { start, end }: KnownCounter,
  url: string,
  options: Pick<OptimisticUpdateOptions<IdCounter>, "abortSignal" | "timeoutInMs">,
): Promise<IdBlock> {
  const inTable = "kind" in target && target.kind.startsWith("table");
  // Not as an Int64: the SDK returns that as a bigint, which breaks programs that list the table and format it as JSON.
  const stored = (next: number): number => (inTable ? ({ type: "Double", value: next } as unknown as number) : next);
  const { value } = await optimisticUpdate<IdCounter>(
    // Its other properties do not matter: the counter is changed in place.
    target as UpdateTarget<IdCounter> | BlockBlobLike,
    (counter) => {
      const next = nextIdOf(counter, url);
      if (end !== undefined && next < end) throw resetError(url, next, end);
      if (!Number.isSafeInteger(next + size)) {
        throw createError(IdCounterError, `The counter at ${url} is exhausted: ${size} ids from ${next} would exceed Number.MAX_SAFE_INTEGER.`, { url, reason: "exhausted" });
      }
      counter.next = stored(next + size);
    },
    // A counter that existed and was deleted must not start again: its ids have been allocated.
    { ...options, onUnknown: "retry", ...(end === undefined && { initial: { next: stored(start) } }) },
  );
  const to = Number(value.next);
  return { from: to - size, to };
}

function resetError(url: string, found: number, end: number): IdCounterError {
  const message = `The counter at ${url} was reset to ${found}, but ids up to ${end - 1} were allocated: set "next" above all ids that any process was given. Until then, no ids are allocated.`;
  return createError(IdCounterError, message, { url, reason: "reset" });
}

/** The counter was set back, or deleted, which is the same for the ids that it has allocated. */
function isReset(error: unknown): boolean {
  return isConcurrencyError(error, "TARGET_NOT_FOUND") || (isConcurrencyError(error, "ID_COUNTER") && error.reason === "reset");
}

function nextIdOf(counter: IdCounter, url: string): number {
  const next = (counter as Partial<IdCounter> | null)?.next;
  const number = typeof next === "bigint" ? Number(next) : next;
  if (!Number.isSafeInteger(number) || number === undefined || number < 0) {
    throw createError(IdCounterError, `The value at ${url} is not a counter of ids: "next" is not a whole number.`, { url, reason: "malformed" });
  }
  return number;
}
