import { BlobLocks } from "../../src/lock/blob-locks.js";
import type { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { pass } from "../lease/fakes/time.js";

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Lets a call that takes some requests run to its end. */
export async function run<R>(promise: Promise<R>, ms = 20): Promise<R> {
  promise.catch(() => undefined);
  await pass(ms);
  return promise;
}

/** How far each epoch is from the first one: a lock without a record starts at the time of day. */
export function fromFirst(epochs: readonly number[]): number[] {
  return epochs.map((epoch) => epoch - epochs[0]!);
}

export function isStrictlyIncreasing(numbers: readonly number[]): boolean {
  return numbers.every((number, i) => i === 0 || number > numbers[i - 1]!);
}

/** Locks of a process of their own: nothing is shared with others but the server. */
export function locksOn(server: FakeLeaseServer, holder?: string): BlobLocks {
  return new BlobLocks(server.container(), { holder });
}
