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

  /** @internal */
  constructor(name: string, grant: LeaseGrant) {
    super(grant.keeper, grant.giveBack);
    this.name = name;
    this.epoch = grant.ticket;
  }
}
