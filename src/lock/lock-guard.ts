import { LeaseGuard } from "../lease/lease-guard.js";
import type { LeaseGrant } from "../lease/lease-queue.js";

/** A named lock that is held. */
export class LockGuard extends LeaseGuard {
  readonly name: string;
  /**
   * The fencing token: larger than that of every holder before. Whatever remembers the largest it has seen, and
   * refuses smaller ones, is safe from a holder that does not know yet that it lost the lock.
   */
  readonly epoch: number;
  /**
   * The smallest epoch that the holder before may have had; 0 if there was none. Numbers are reserved for those who
   * wait in a process, and not all of them are used.
   */
  readonly previousEpoch: number;

  /** @internal */
  constructor(name: string, grant: LeaseGrant) {
    super(grant.keeper, grant.giveBack);
    this.name = name;
    if (!grant.ticket) throw new TypeError("a lock without a number");
    this.epoch = grant.ticket.epoch;
    this.previousEpoch = grant.ticket.previousEpoch;
  }
}
