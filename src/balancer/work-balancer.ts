import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, StopOptions } from "../core/background-service.js";
import { check } from "../core/request.js";
import { toNotFoundError } from "../core/storage-errors.js";
import { quotedText } from "../errors.js";
import { errorLabel, logger, withSpan } from "../core/telemetry.js";
import { EventDispatcher } from "../core/typed-events.js";
import type { TypedEvents } from "../core/typed-events.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { callOptionNames } from "../lock/lock-options.js";
import type { LockStatus } from "../lock/lock-options.js";
import { RecordedCount } from "../lock/recorded-count.js";
import { endOrSignal } from "../lock/term.js";
import { checkBalancerOptions, eventNames, maxShardCount } from "./balancer-options.js";
import type { ShardContext, WorkBalancerEvents, WorkBalancerOptions } from "./balancer-options.js";
import { BalancerRun } from "./balancer-run.js";
import { memberLockOf, readListing, shardLockOf } from "./worker-record.js";

/**
 * Spreads shards evenly over all running workers with the same name. A shard is a number; what it stands for is up to the application:
 * partitions of a table, tenants, feeds. A shard never has two owners, as each is a lock, and each term of an owner has an epoch. When a
 * worker joins or leaves, no more shards move than have to. The shards of a worker that died are taken over when its leases have expired.
 * @example
 * ```ts
 * const balancer = new WorkBalancer(locks, "feeds", 32, async ({ shard, epoch, signal }) => {
 *   while (!signal.aborted) await pollFeed(shard, { epoch, signal });
 * });
 * balancer.on("error", (error) => console.error(error));
 * await balancer.start();
 * ```
 */
export class WorkBalancer implements BackgroundService, TypedEvents<WorkBalancerEvents> {
  /** The name of the balancer. Its shards are the locks `name/shards/0`, `name/shards/1`, ...; its workers hold `name/members/0`, ... */
  readonly name: string;
  /** The number of shards. */
  readonly shards: number;
  readonly #locks: BlobLocks;
  readonly #events: EventDispatcher<WorkBalancerEvents>;
  readonly #service: ServiceRunner;
  #run: BalancerRun | undefined;

  /**
   * Sends no request: the worker takes part from {@link WorkBalancer.start} on.
   * @param shards - All workers must pass the same number; the first one records it.
   * @param processShard - The work of a shard. It must end when `signal` aborts; only then is the lease released. If it has not ended after
   * `drainTimeoutInMs`, the lease is left to expire. If it ends before its term, this worker keeps the shard; if it throws, the shard is
   * released, the error is an `error` event, and this worker does not acquire the shard again for 5 seconds, and for up to a minute if it
   * fails repeatedly.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(locks: BlobLocks, name: string, shards: number, processShard: (context: ShardContext) => Promise<void> | void, options: WorkBalancerOptions = {}) {
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.tryAcquireFor !== "function") throw new TypeError("WorkBalancer needs BlobLocks");
    if (typeof processShard !== "function") throw new TypeError("WorkBalancer: processShard must be a function");
    this.shards = checkNumber("shards", shards, { min: 1, max: maxShardCount, integer: true });
    locks.blobOf(name); // Rejects an invalid name now: how long it may be depends on the prefix.
    for (const longest of [shardLockOf(name, shards), memberLockOf(name, 99_999)]) locks.blobOf(longest);
    const settings = checkBalancerOptions(locks, options);
    this.#locks = locks;
    this.name = name;
    const component = `WorkBalancer ${quotedText(name)}`;
    const events = new EventDispatcher<WorkBalancerEvents>(component, eventNames);
    this.#events = events;
    const report = (error: unknown): void => {
      logger.warning(`balancer ${quotedText(name)}: ${errorLabel(error)}`);
      events.emit("error", error);
    };
    const parts = { locks, name, shards, settings, processShard, abandoned: new Set<number>(), report, emit: events.emit.bind(events) };
    const count = new RecordedCount(locks.sideBlobOf(name, "shards"), "shards", JSON.stringify(name), shards);
    this.#service = new ServiceRunner({
      name: component,
      drainTimeoutInMs: settings.drainTimeoutInMs,
      prepare: async (request) => {
        const url = locks.containerUrl;
        const { found } = await check(url, (limits) => count.readOrCreate(Infinity, limits), request).catch((error: unknown) => {
          throw toNotFoundError(error, url, undefined) ?? error;
        });
        count.compare(found);
      },
      launch: () => (this.#run = new BalancerRun(parts)),
    });
  }

  /** Whether this worker takes part. */
  get isRunning(): boolean {
    return this.#service.isRunning;
  }

  /** The shards that this worker owns at this moment, by the clock. */
  get ownedShards(): readonly number[] {
    return this.#run?.ownedShards ?? [];
  }

  /**
   * Checks that the container of the locks exists and that the other workers use the same number of shards, and takes part from now on.
   * Costs 1 request, or 2 if no worker has started before.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws {@link LockModeMismatchError} if other workers use another number of shards.
   * @throws {@link OperationTimeoutError} if the service does not respond within 30 seconds.
   */
  start(options?: CallOptions): Promise<void> {
    return this.#service.start(options);
  }

  /**
   * Ends the terms of all shards, waits for their work, releases their leases, and no longer takes part. Work that has not ended after
   * `drainTimeoutInMs` is abandoned: its lease is not renewed any more. Called by the work of a shard, it does not wait: the work would
   * wait for its own end. It resolves when the signal of that shard has aborted.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  async stop(options?: StopOptions): Promise<void> {
    const inside = this.#run?.callingTerm;
    // The stop comes first: if its options are wrong, it has rejected already, and the terms go on.
    await endOrSignal(this.#service.stop(options), inside);
  }

  /**
   * Starts, takes part until the signal aborts or `stop` is called, and stops. Rejects only if it could not start.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws {@link LockModeMismatchError} if other workers use another number of shards.
   */
  run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    return this.#service.run(options);
  }

  /**
   * Gives shards to other workers, for example under memory pressure: those that this worker acquired last. It does not have more than the
   * rest from now on, until it is stopped. If no other worker can have them, they have no owner. Returns the numbers of the shards when
   * their leases are released, or when their work was abandoned. It does not wait for the work that calls it.
   * @param count - How many; all, if it has fewer.
   * @throws `RangeError` if `count` is not a whole number of at least 0.
   */
  async shed(count: number): Promise<readonly number[]> {
    checkNumber("count", count, { min: 0, integer: true });
    return this.isRunning && this.#run ? this.#run.shed(count) : [];
  }

  /**
   * Reads which shards have an owner, and which process it is. Costs 1 request for every 5,000 shards and workers.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  inspect(options: CallOptions = {}): Promise<readonly { readonly shard: number; readonly owner: LockStatus | undefined }[]> {
    return withSpan("WorkBalancer.inspect", options, async (tracingOptions) => {
      checkOptions("WorkBalancer.inspect", options, callOptionNames);
      const locks = this.#locks.list({ abortSignal: options.abortSignal, tracingOptions, prefix: `${this.name}/` });
      const { shardLocks } = await readListing(this.name, this.shards, locks);
      return shardLocks.map((owner, shard) => ({ shard, owner }));
    }, { targetKind: "balancer" });
  }

  /** Adds a listener. A listener that throws has no effect on the balancer. */
  on<K extends keyof WorkBalancerEvents>(event: K, listener: (detail: WorkBalancerEvents[K]) => void): this {
    this.#events.add(event, listener);
    return this;
  }

  /** Adds a listener for the next event only. */
  once<K extends keyof WorkBalancerEvents>(event: K, listener: (detail: WorkBalancerEvents[K]) => void): this {
    this.#events.add(event, listener, true);
    return this;
  }

  /** Removes a listener. */
  off<K extends keyof WorkBalancerEvents>(event: K, listener: (detail: WorkBalancerEvents[K]) => void): this {
    this.#events.remove(event, listener);
    return this;
  }

  /** Stops, as {@link WorkBalancer.stop} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
