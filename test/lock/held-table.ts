import { createError, LeaseLostError } from "../../src/errors.js";
import type { LockHandleImpl } from "../../src/lease/lease-handle.js";
import type { TableLockGranularity } from "../../src/lock/fence-row.js";
import { LockedTableImpl } from "../../src/lock/locked-table.js";
import type { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

/** The lock of a table on the side of the service: which of the holders that tests create has it. */
export class FakeLockService {
  /** The epoch of the holder that has the lock; undefined: whoever asks. */
  current: number | undefined;
  /** Called before the service answers the question whether a holder has the lock. */
  onConfirm: (() => unknown) | undefined;
  confirms = 0;

  /** A holder that takes the lock. */
  grant(table: FakeTransactionTable, epoch: number, rowKey?: string): TestHolder {
    this.current = epoch;
    return holderOf(table, epoch, rowKey, this);
  }
}

export interface TestHolder extends LockedTableImpl {
  /** The holder notices that the lock is lost. */
  readonly lose: () => void;
  /** The lease is over, and the timers that would say so have not run yet. */
  readonly pause: () => void;
}

/** What the holder of this number has in its hands. */
export function holderOf(table: FakeTransactionTable, epoch: number, rowKey?: string, service = new FakeLockService(), granularity?: TableLockGranularity): TestHolder {
  const controller = new AbortController();
  let ended: Error | undefined;
  const end = (error: Error, reason: unknown = error): void => {
    ended = error;
    controller.abort(reason);
  };
  const url = "https://account.test/lock";
  const lost = (): LeaseLostError => createError(LeaseLostError, "Lease lost: another holder has it.", { url, reason: "stolen" });
  const lock = {
    epoch,
    leaseId: `lease-${epoch}`,
    signal: controller.signal,
    get loss() {
      return ended;
    },
    assertHeld: () => {
      if (ended) throw ended;
    },
    release: () => {
      end(createError(LeaseLostError, "The lease was released.", { url, reason: "expired" }), new DOMException("released", "AbortError"));
      return Promise.resolve();
    },
  } as unknown as LockHandleImpl;
  const blob = {
    url,
    getProperties: async () => {
      service.confirms++;
      await service.onConfirm?.();
      if (service.current !== undefined && service.current !== epoch) throw Object.assign(new Error("412"), { name: "RestError", statusCode: 412, code: "LeaseIdMismatchWithBlobOperation" });
      return {};
    },
  };
  const key = rowKey === undefined ? undefined : { partitionKey: "p", rowKey };
  const held = new LockedTableImpl(table, { lock, blob, granularity: granularity ?? (key ? "entity" : "table"), key });
  return Object.assign(held, { lose: () => end(lost()), pause: () => void (ended = lost()) });
}
