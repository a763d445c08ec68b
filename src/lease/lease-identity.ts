import { isOtherLease } from "../internal/storage-errors.js";

/** The id of a lease; two of them, after a change whose outcome could not be found out. */
export class LeaseIdentity {
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

  /** The lease has this id. The other one is kept: a request that was given up may still arrive. */
  becomes(leaseId: string): void {
    this.#other = this.#current;
    this.#current = leaseId;
  }

  mayBecome(leaseId: string): void {
    this.#other = leaseId;
  }

  /** Runs an operation under the id that the lease has: if the service knows it by the other one, under that. */
  async use<R>(run: (leaseId: string) => Promise<R>): Promise<R> {
    try {
      return await run(this.#current);
    } catch (error) {
      if (this.#other === undefined || !isOtherLease(error)) throw error;
      const other = this.#other;
      const outcome = await run(other).then(
        (result) => ({ result }),
        () => undefined,
      );
      // Neither: then what was said of the id that it should have counts.
      if (!outcome) throw error;
      this.becomes(other);
      return outcome.result;
    }
  }
}
