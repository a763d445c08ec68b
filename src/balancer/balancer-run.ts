import type { ServiceRun } from "../core/background-service.js";
import { delay, isAborted, onAbort, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { inParallel } from "../core/parallel.js";
import { readInTime } from "../core/request.js";
import { jitter } from "../core/retry.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { settledOrAborted, Term } from "../lock/term.js";
import type { TermParts } from "../lock/term.js";
import type { BalancerSettings, ShardContext, WorkBalancerEvents } from "./balancer-options.js";
import { Membership } from "./membership.js";
import { planShards } from "./plan-shards.js";
import type { ShardView } from "./plan-shards.js";
import { RestingFleet } from "./resting-fleet.js";
import { ShardCooldowns } from "./shard-cooldowns.js";
import { formatWorker, membersPrefix, readListing, shardLockOf } from "./worker-record.js";
import type { BalancerListing } from "./worker-record.js";

/** A listing that takes longer is given up, and repeated at the next rebalance. */
const listLimits = Object.freeze({ timeoutInMs: 10_000, tryTimeoutInMs: 5_000 });
/** So many shards are acquired at the same time. */
const maxParallel = 16;
/** A worker below its quota looks so many times as often. */
const hurryFactor = 3;
/** A shard that is free for three to six intervals is neglected. Random, so that not all workers try it at the same time. */
const neglectedAfterIntervals = 4.5;

type ShardTerm = Term<"rebalanced" | "shed">;

/** What a run needs of its balancer. */
export interface BalancerParts {
  readonly locks: BlobLocks;
  readonly name: string;
  readonly shards: number;
  readonly settings: BalancerSettings;
  readonly processShard: (context: ShardContext) => Promise<void> | void;
  /** Shards whose work was abandoned and still runs, in this run or in one before. */
  readonly abandoned: Set<number>;
  readonly emit: <K extends "acquired" | "released">(event: K, detail: WorkBalancerEvents[K]) => void;
  readonly report: (error: unknown) => void;
}

/** One run of a balancer, from start to stop: one worker, as the others see it. */
export class BalancerRun implements ServiceRun {
  readonly #parts: BalancerParts;
  readonly #id = crypto.randomUUID();
  readonly #stopped = new AbortController();
  readonly #membership: Membership;
  /** Of the shards whose leases this worker holds. Those that were acquired first come first; neglected ones are in front. */
  #terms = new Map<number, ShardTerm>();
  /** Their end is decided, and follows when the new limit is published: another call of `shed` ends others. */
  readonly #shedding = new WeakSet<ShardTerm>();
  readonly #cooldowns = new ShardCooldowns();
  readonly #rest = new RestingFleet();
  readonly #freeSince = new Map<number, { readonly clock: Clock; readonly graceInMs: number }>();
  #limit: number;
  #memberSlots: ReadonlySet<number> = new Set();
  readonly #loop: Promise<void>;

  constructor(parts: BalancerParts) {
    const { locks, name, settings } = parts;
    this.#parts = parts;
    this.#limit = settings.maxShards;
    this.#membership = new Membership(locks, name, { id: this.#id, data: settings.data }, settings.lockOptions);
    this.#loop = this.#rebalanceUntilStopped();
  }

  get ownedShards(): readonly number[] {
    return [...this.#terms].filter(([, term]) => term.isHeld).map(([shard]) => shard).sort((a, b) => a - b);
  }

  /** The term whose work makes the current call. */
  get callingTerm(): ShardTerm | undefined {
    return [...this.#terms.values()].find((term) => term.isCalledByWork());
  }

  async stop(hurry: AbortSignal): Promise<void> {
    this.#stopped.abort(new DOMException("The balancer was stopped", "AbortError"));
    const off = onAbort(hurry, () => {
      for (const term of this.#terms.values()) term.abandon();
    });
    await settledOrAborted(this.#end(), hurry);
    off();
  }

  async shed(count: number): Promise<readonly number[]> {
    const staying = [...this.#terms].filter(([, term]) => !term.signal.aborted && !this.#shedding.has(term));
    const shed = staying.slice(Math.max(0, staying.length - count)).reverse();
    if (shed.length === 0) return [];
    for (const [, term] of shed) this.#shedding.add(term);
    this.#limit = staying.length - shed.length;
    // Before the shards are free: the other workers would leave them to this one. If it fails, the next rebalance does it.
    await this.#membership.publish(this.#limit, this.#memberSlots, this.#stopped.signal).catch((error: unknown) => this.#reportUnlessStopped(error));
    for (const [, term] of shed) term.end("shed", new DOMException("The worker sheds the shard", "AbortError"));
    // The work of a shard cannot wait for its own end.
    await Promise.all(shed.filter(([, term]) => !term.isCalledByWork()).map(([, term]) => term.ended));
    return shed.map(([shard]) => shard);
  }

  /** Never rejects. */
  async #end(): Promise<void> {
    // The member lock first: while the work of this worker ends, the others can plan what follows.
    await Promise.all([this.#membership.leave(), this.#loop]);
    await Promise.all([...this.#terms.values()].map((term) => term.ended));
  }

  async #rebalanceUntilStopped(): Promise<void> {
    const { signal } = this.#stopped;
    const { rebalanceIntervalInMs } = this.#parts.settings;
    while (!signal.aborted) {
      let lacksShards = false;
      try {
        lacksShards = await this.#rebalance();
      } catch (error) {
        this.#reportUnlessStopped(error);
      }
      await delay(jitter(lacksShards ? rebalanceIntervalInMs / hurryFactor : rebalanceIntervalInMs, 0.1), signal).catch(() => undefined);
    }
  }

  /** Returns whether this worker has fewer shards than it should. */
  async #rebalance(): Promise<boolean> {
    if (await this.#isAtRest()) return false;
    this.#rest.end();
    const listing = await this.#list(`${this.#parts.name}/`);
    this.#memberSlots = listing.memberSlots;
    // A worker that is not seen by the others keeps what it has, and takes nothing: their plans would not fit to its own.
    if (!(await this.#membership.publish(this.#limit, listing.memberSlots, this.#stopped.signal))) return true;
    listing.workers.set(this.#id, this.#limit);
    const neglected = this.#neglected(listing);
    const owned = [...this.#terms.keys()];
    const ending = new Set(owned.filter((shard) => this.#terms.get(shard)?.signal.aborted));
    const avoided = new Set([...this.#parts.abandoned, ...this.#cooldowns.active()]);
    const { quota, release, acquire, isBalanced } = planShards(listing, { id: this.#id, owned, ending, avoided, neglected });
    for (const shard of release) this.#terms.get(shard)?.end("rebalanced", new DOMException("Another worker gets the shard", "AbortError"));
    await this.#acquireAll(acquire, neglected);
    if (isBalanced && ending.size === 0 && this.#terms.size === quota) this.#rest.begin(listing.workers, quota);
    return this.#terms.size < quota;
  }

  /** Whether a list of the workers shows that there is nothing to do. */
  async #isAtRest(): Promise<boolean> {
    const { name } = this.#parts;
    const staying = [...this.#terms.values()].filter(({ signal }) => !signal.aborted);
    if (!this.#rest.mayContinue(staying.length)) return false;
    const { workers, memberSlots } = await this.#list(membersPrefix(name));
    this.#memberSlots = memberSlots;
    // A worker whose own member lock was lost is not among them, and joins again in a full rebalance.
    return workers.get(this.#id) === this.#limit && this.#rest.continuesWith(workers);
  }

  #list(prefix: string): Promise<Omit<BalancerListing<unknown>, "shardLocks">> {
    const { locks, name, shards } = this.#parts;
    const send = (abortSignal: AbortSignal): Promise<BalancerListing<unknown>> => readListing(name, shards, locks.listHolders("WorkBalancer", { prefix, abortSignal }));
    // Repeated if it may be from the secondary: shards would move because of workers that have come or gone long ago.
    return readInTime(send, locks.containerUrl, { ...listLimits, abortSignal: this.#stopped.signal });
  }

  /** The shards that have been free for long, as far as this worker has seen. */
  #neglected({ owners }: ShardView): ReadonlySet<number> {
    const neglected = new Set<number>();
    for (const [shard, owner] of owners.entries()) {
      const since = this.#freeSince.get(shard);
      if (owner !== undefined || this.#terms.has(shard)) this.#freeSince.delete(shard);
      else if (!since) this.#freeSince.set(shard, { clock: startStopwatch(), graceInMs: jitter(neglectedAfterIntervals * this.#parts.settings.rebalanceIntervalInMs, 1 / 3) });
      else if (since.clock() >= since.graceInMs) neglected.add(shard);
    }
    return neglected;
  }

  /** A shard that cannot be acquired does not keep this worker from the others. Rejects with the first error: they mostly have the same cause. */
  async #acquireAll(shards: readonly number[], neglected: ReadonlySet<number>): Promise<void> {
    const errors: unknown[] = [];
    await inParallel(shards, maxParallel, async (shard) => {
      try {
        if (!isAborted(this.#stopped.signal)) await this.#acquire(shard, neglected.has(shard));
      } catch (error) {
        errors.push(error);
      }
    });
    if (errors.length > 0) throw errors[0];
  }

  async #acquire(shard: number, isNeglected: boolean): Promise<void> {
    const { locks, name, settings } = this.#parts;
    // Shed since the plan was made.
    if (this.#terms.size >= this.#limit) return;
    const data = formatWorker({ id: this.#id, generation: 0, limit: settings.maxShards, data: settings.data });
    const lock = await locks.tryAcquireFor("WorkBalancer", shardLockOf(name, shard), { ...settings.lockOptions, data, abortSignal: this.#stopped.signal }, "election");
    if (!lock) return;
    if (this.#terms.size >= this.#limit) await lock[Symbol.asyncDispose]();
    else void this.#own(shard, lock, isNeglected);
  }

  /** Runs the term of a shard. Never rejects. */
  async #own(shard: number, lock: LockHandleImpl, isNeglected: boolean): Promise<void> {
    const { name, settings, processShard, abandoned, emit, report } = this.#parts;
    const state = { hasBegun: false };
    const parts: TermParts = {
      component: "WorkBalancer",
      targetKind: "balancer",
      holder: `shard ${shard} of ${JSON.stringify(name)}`,
      successor: "another worker may own the shard",
      drainTimeoutInMs: settings.drainTimeoutInMs,
      onBegin: ({ epoch }) => {
        state.hasBegun = true;
        emit("acquired", { shard, epoch });
      },
      work: (term) => processShard({ ...term, shard }),
      onError: report,
    };
    const term: ShardTerm = new Term(lock, parts);
    // In front: if this worker has one too many now, it gives another one for it.
    this.#terms = isNeglected ? new Map([[shard, term], ...this.#terms]) : this.#terms.set(shard, term);
    const heldForInMs = startStopwatch();
    const reason = await term.run(this.#stopped.signal);
    if (reason === "abandoned") {
      abandoned.add(shard);
      void term.workEnded.then(() => abandoned.delete(shard));
    }
    if (reason === "failed") this.#cooldowns.begin(shard, heldForInMs());
    else this.#cooldowns.forget(shard);
    this.#terms.delete(shard);
    if (state.hasBegun) emit("released", { shard, epoch: lock.epoch, reason });
  }

  #reportUnlessStopped(error: unknown): void {
    if (!isAborted(this.#stopped.signal)) this.#parts.report(error);
  }
}
