import type { LockStatus } from "../lock/lock-options.js";
import { checkData } from "../lock/lock-record.js";
import type { ShardView } from "./plan-shards.js";

/** What the `data` of a member lock, or of the lock of a shard, say of its holder. */
export interface WorkerRecord {
  /** Of one worker, from start to stop. */
  readonly id: string;
  /** Counts what the worker has published: while it changes its limit, it has two member locks, and the newer one counts. */
  readonly generation: number;
  /** How many shards it can have. */
  readonly limit: number;
  /** The `data` of the user. */
  readonly data: string | undefined;
}

/** An id, a generation and a limit before the data of the user: 36 characters, two numbers and three dots. */
const maxOverhead = 72;

/** Only characters that need no encoding, as the record of a lock has little room. */
export function formatWorker({ id, generation, limit, data }: WorkerRecord): string {
  return [id, generation, limit === Infinity ? "-" : limit, ...(data === undefined ? [] : [data])].join(".");
}

/** Undefined: another program holds the lock. */
export function parseWorker(text: string | undefined): WorkerRecord | undefined {
  const [, id, generation, limit, , data] = /^([0-9a-f-]{36})\.(\d{1,15})\.(\d{1,15}|-)(\.([^]*))?$/.exec(text ?? "") ?? [];
  if (id === undefined) return undefined;
  return { id, generation: Number(generation), limit: limit === "-" ? Infinity : Number(limit), data };
}

export function checkWorkerData(data: string | undefined): string | undefined {
  checkData(data);
  if (data === undefined || encodeURIComponent(data).length <= 1_024 - maxOverhead) return data;
  throw new RangeError(`data must have at most ${1_024 - maxOverhead} characters when percent-encoded: the worker stores its id with them`);
}

export function shardLockOf(name: string, shard: number): string {
  return `${name}/shards/${shard}`;
}

/** What the names of all member locks begin with. */
export function membersPrefix(name: string): string {
  return `${name}/members/`;
}

export function memberLockOf(name: string, slot: number): string {
  return `${membersPrefix(name)}${slot}`;
}

/** What is needed of a lock in a listing. */
type ListedLock = Pick<LockStatus, "name" | "state" | "data">;

/** A listing of all locks of a balancer; or of its workers only, and then no shard has an owner. */
export interface BalancerListing<L> extends ShardView {
  readonly workers: Map<string, number>;
  /** The numbers of the member locks that are held. */
  readonly memberSlots: ReadonlySet<number>;
  /** The lock of each shard that has an owner, with the data as the user gave them. */
  readonly shardLocks: readonly (L | undefined)[];
}

/** Other locks may have names that begin in the same way: only those of workers and existing shards count. */
export async function readListing<L extends ListedLock>(name: string, shards: number, locks: AsyncIterable<L>): Promise<BalancerListing<L>> {
  const members = new Map<string, WorkerRecord>();
  const memberSlots = new Set<number>();
  const owners = new Array<string | undefined>(shards).fill(undefined);
  const shardLocks = new Array<L | undefined>(shards).fill(undefined);
  for await (const status of locks) {
    const [, kind, digits] = /^\/(shards|members)\/(0|[1-9]\d{0,8})$/.exec(status.name.slice(name.length)) ?? [];
    if (kind === undefined || (status.state !== "leased" && status.state !== "breaking")) continue;
    const number = Number(digits);
    const worker = parseWorker(status.data);
    if (kind === "members") {
      memberSlots.add(number);
      if (worker && worker.generation > (members.get(worker.id)?.generation ?? -1)) members.set(worker.id, worker);
    } else if (number < shards) {
      // A program that acquired the lock of a shard itself is an owner, too.
      owners[number] = worker?.id ?? "";
      shardLocks[number] = worker ? { ...status, data: worker.data } : status;
    }
  }
  return { workers: new Map([...members].map(([id, { limit }]) => [id, limit])), owners, memberSlots, shardLocks };
}
