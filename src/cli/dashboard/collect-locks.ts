import type { BlobItem, ContainerClient } from "@azure/storage-blob";
import { parseWorker } from "../../balancer/worker-record.js";
import { lockInfo } from "../../lock/inspect-lease.js";
import type { LockStatus } from "../../lock/lock-options.js";
import { lockNameOf, parseLockRecord } from "../../lock/lock-record.js";
import { gateOf, readersOf } from "../../lock/reader-group.js";
import { countedBlobOf, countName, isCountRecord, metadataValue } from "../../lock/recorded-count.js";
import { describeLock, isHeld } from "../commands/locks.js";
import type { ContainerView, LockView, ReaderWriterView, SlotsView } from "./snapshot.js";

/** 1 request for every 5,000 blobs: what a container has beyond that is not shown. */
const maxPages = 2;
/** More rows than anybody reads, and the page has to draw them. */
const maxShown = 500;

/** Reads the locks of a container, in one listing for all kinds of them. */
export async function collectLocks(container: ContainerClient, prefix: string, elections: readonly string[], abortSignal: AbortSignal): Promise<ContainerView> {
  const blobs: BlobItem[] = [];
  let pages = 0;
  let isPartial = false;
  for await (const { segment, continuationToken } of container.listBlobsFlat({ prefix, includeMetadata: true, abortSignal }).byPage()) {
    blobs.push(...segment.blobItems);
    isPartial = Boolean(continuationToken);
    if (++pages === maxPages) break;
  }
  return { ...sortLocks(blobs, prefix, elections), isPartial };
}

type ListedBlob = Pick<BlobItem, "name" | "metadata"> & { readonly properties: Pick<BlobItem["properties"], "leaseState" | "leaseDuration"> };

/** What the blobs of a container say of its locks. Semaphores and balancers are told by their records, reader-writer locks by their names. */
export function sortLocks(blobs: readonly ListedBlob[], prefix: string, electionNames: readonly string[]): Omit<ContainerView, "isPartial"> {
  const statuses = new Map<string, LockStatus>();
  const slots: SlotsView[] = [];
  for (const { name: blob, metadata, properties } of blobs) {
    const name = lockNameOf(prefix, blob);
    if (name !== undefined) {
      statuses.set(name, { name, ...lockInfo(properties, parseLockRecord(metadata)) });
    } else if (isCountRecord(blob, metadata)) {
      const counted = lockNameOf(prefix, countedBlobOf(blob));
      const count = Number(metadataValue(metadata, countName));
      if (counted !== undefined && Number.isSafeInteger(count) && count > 0) slots.push({ kind: blob.endsWith(".shards") ? "balancer" : "semaphore", name: counted, slots: count, held: [] });
    }
  }
  const rest = new Map(statuses);
  const filled = slots.map((view) => ({ ...view, held: takeSlots(view, rest) }));
  const readerWriterLocks = takeReaderWriterLocks(rest);
  const locks = [...rest.values()].map(lockView).sort((a, b) => Number(b.isHeld) - Number(a.isHeld) || compare(a.label, b.label));
  const elections = electionNames.map((name) => {
    const status = statuses.get(name);
    return { name, lock: status && lockView(status) };
  });
  return {
    locks: locks.slice(0, maxShown),
    lockCount: locks.length,
    heldCount: locks.filter((lock) => lock.isHeld).length,
    elections,
    slots: filled.sort((a, b) => compare(a.name, b.name)),
    readerWriterLocks,
  };
}

function takeSlots({ kind, name, slots }: SlotsView, rest: Map<string, LockStatus>): SlotsView["held"] {
  const held: { slot: number; lock: LockView }[] = [];
  const format = kind === "semaphore" ? /^\/(0|[1-9]\d{0,5})$/ : /^\/shards\/(0|[1-9]\d{0,5})$/;
  for (const [lock, status] of rest) {
    if (!lock.startsWith(`${name}/`)) continue;
    const slot = format.exec(lock.slice(name.length))?.[1];
    // Those of the workers: each shard names its own.
    const isMember = kind === "balancer" && lock.startsWith(`${name}/members/`);
    if (slot === undefined && !isMember) continue;
    rest.delete(lock);
    if (slot === undefined || !isHeld(status) || Number(slot) >= slots) continue;
    held.push({ slot: Number(slot), lock: lockView(kind === "balancer" ? { ...status, data: parseWorker(status.data)?.data } : status) });
  }
  return held.sort((a, b) => a.slot - b.slot);
}

/** A lock whose name ends as that of a writer is taken for one. */
function takeReaderWriterLocks(rest: Map<string, LockStatus>): ReaderWriterView[] {
  const found = new Map<string, { name: string; writer: LockView | undefined; readers: LockView[] }>();
  for (const [lock, status] of rest) {
    const [, name = "", reader] = /^(.+)\/(?:write|read\/([0-9a-f-]{36}))$/su.exec(lock) ?? [];
    const isReader = reader !== undefined && lock === `${readersOf(name)}${reader}`;
    if (name === "" || (!isReader && lock !== gateOf(name))) continue;
    rest.delete(lock);
    const view = found.get(name) ?? { name, writer: undefined, readers: [] };
    found.set(name, view);
    if (!isHeld(status)) continue;
    if (isReader) view.readers.push(lockView(status));
    else view.writer = lockView(status);
  }
  for (const { readers } of found.values()) readers.sort((a, b) => compare(a.since ?? "", b.since ?? ""));
  return [...found.values()].sort((a, b) => compare(a.name, b.name));
}

export function lockView(status: LockStatus): LockView {
  const { name, state, epoch, holder, acquiredOn, data, fair } = status;
  const label = name.startsWith('["table",') ? describeLock(name) : name;
  return { name, label, state, isHeld: isHeld(status), epoch, holder, since: acquiredOn?.toISOString(), data, isFair: fair };
}

/** By code units, as the service sorts names. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
