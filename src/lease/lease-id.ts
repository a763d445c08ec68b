import type { RequestOutcome } from "../core/request.js";
import { isLeaseIdMismatch } from "../core/storage-errors.js";

/** The id of a lease; two ids after a change whose outcome is unknown. */
export class LeaseIds {
  #current: string;
  #other: string | undefined;

  constructor(leaseId: string) {
    this.#current = leaseId;
  }

  get current(): string {
    return this.#current;
  }

  get all(): string[] {
    return this.#other === undefined ? [this.#current] : [this.#current, this.#other];
  }

  /** The lease has this id. The other one is kept: an abandoned change request may still arrive. */
  becomes(leaseId: string): void {
    this.#other = this.#current;
    this.#current = leaseId;
  }

  mayBecome(leaseId: string): void {
    this.#other = leaseId;
  }

  /** Sends a request with the current id; if the service knows the lease by the other id, with that one. */
  async use<R>(send: (leaseId: string) => Promise<RequestOutcome<R>>): Promise<RequestOutcome<R>> {
    const outcome = await send(this.#current);
    if (outcome.kind === "ok" || this.#other === undefined || !isLeaseIdMismatch(outcome.error)) return outcome;
    const other = this.#other;
    const again = await send(other);
    // Neither matches: the response for the expected id counts.
    if (again.kind !== "ok") return outcome;
    this.becomes(other);
    return again;
  }
}

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The service accepts only GUIDs, and Azurite accepts anything: checked before a request is sent. */
export function checkLeaseId(name: string, leaseId: string): void {
  if (typeof leaseId !== "string" || !guid.test(leaseId)) throw new RangeError(`${name} must be a GUID`);
}
