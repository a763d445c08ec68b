import { LeaseLeftError } from "../errors.js";
import type { LeaseLossReason } from "../errors.js";
import { wasSentOnce } from "../core/bounded.js";
import { logger } from "../core/telemetry.js";
import { isDefinitive, leaseLossOf, statusOf } from "../core/storage-errors.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import type { LeaseIdentity } from "./held-lease.js";
import { releaseLater } from "./orphaned-lease.js";

/** A release is a courtesy to the next one: it must not hold up the caller for long. */
const limitInMs = 5_000;

/** Makes one request, bounded in time. */
export type SendRelease = (limitInMs: number, call: (request: LeaseRequest) => Promise<unknown>) => Promise<unknown>;

/** Gives one lease back, if need be in several tries. */
export class LeaseRelease {
  readonly #adapter: LeaseAdapter;
  readonly #identity: LeaseIdentity;
  /** Whether the lease stays for ever if it is not released. */
  readonly #infinite: boolean;
  /** A release was sent, and what became of it is not known. */
  #tried = false;
  #stopLater: (() => void) | undefined;

  constructor(adapter: LeaseAdapter, identity: LeaseIdentity, infinite: boolean) {
    this.#adapter = adapter;
    this.#identity = identity;
    this.#infinite = infinite;
  }

  /** One try. Tells of a loss that turns up only now; rejects if the service could not be told. */
  async run(send: SendRelease): Promise<{ reason: LeaseLossReason; cause: unknown } | undefined> {
    this.#stopLater?.();
    try {
      await this.#identity.use((leaseId) => send(limitInMs, (request) => this.#adapter.release(leaseId, request)));
    } catch (error) {
      if (statusOf(error) === 404) return undefined; // deleted, by its holder most likely: nothing is left to be released
      const reason = leaseLossOf(error);
      if (!reason) throw this.#leave(error);
      // Sent more than once: an earlier try released it, and this one found it gone.
      if (wasSentOnce(error) && !this.#tried) return { reason, cause: error };
    }
    return undefined;
  }

  /** A lease that expires will; one that does not must not stay because of a passing outage. */
  #leave(error: unknown): unknown {
    this.#tried = true;
    if (!this.#infinite || isDefinitive(error)) return error;
    const { url } = this.#adapter;
    const stops = this.#identity.all.map((leaseId) => releaseLater(this.#adapter, leaseId));
    this.#stopLater = () => {
      for (const stop of stops) stop();
    };
    const message = `the lease on ${url} could not be released, and never expires: it is tried again in the background for two minutes; if it stays, release it with its id, or break it`;
    logger.warning(message);
    return new LeaseLeftError(message, { url, leaseId: this.#identity.current, cause: error });
  }
}
