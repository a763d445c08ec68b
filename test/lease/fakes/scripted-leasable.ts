import type { LeasableBlobLike, LeaseResponseLike, LeaseCallOptions, LeaseClientLike, LeasePropertiesLike } from "../../../src/clients/blob.js";
import { give, ok } from "./answers.js";
import type { Answer } from "./answers.js";
import { elapsed } from "./time.js";

type Operation = "acquire" | "renew" | "change" | "release" | "break" | "properties" | "create";

/** One answer for all requests, the answers one after the other (the last one for ever), or one for each time. */
type Script = Answer | readonly Answer[] | ((at: number, nth: number) => Answer);

interface Call {
  readonly operation: Operation;
  readonly leaseId: string;
  /** Since the clock of the test was started. */
  readonly at: number;
  readonly options: LeaseCallOptions | undefined;
}

/** A blob client whose answers are written down beforehand. It has no state: it does not know who holds what. */
export class ScriptedLeasable implements LeasableBlobLike {
  readonly url = "https://account.test/container/blob?sig=secret";
  readonly pipeline = {};
  readonly calls: Call[] = [];
  script: Partial<Record<Operation, Script>>;
  properties: LeasePropertiesLike = {};

  constructor(script: Partial<Record<Operation, Script>> = {}) {
    this.script = script;
  }

  callsOf(operation: Operation): Call[] {
    return this.calls.filter((call) => call.operation === operation);
  }

  /** When each request of a kind was sent. */
  times(operation: Operation): number[] {
    return this.callsOf(operation).map((call) => call.at);
  }

  getBlobLeaseClient(leaseId = ""): LeaseClientLike {
    return {
      acquireLease: (_duration, options) => this.#answer("acquire", leaseId, options),
      renewLease: (options) => this.#answer("renew", leaseId, options),
      changeLease: (proposed, options) => this.#answer("change", proposed, options),
      releaseLease: (options) => this.#answer("release", leaseId, options),
      breakLease: (_period, options) => this.#answer("break", leaseId, options),
    };
  }

  async getProperties(options?: LeaseCallOptions): Promise<LeasePropertiesLike> {
    await this.#answer("properties", "", options);
    return this.properties;
  }

  upload(_body: Uint8Array, _length: number, options?: LeaseCallOptions): Promise<LeaseResponseLike> {
    return this.#answer("create", "", options);
  }

  #answer(operation: Operation, leaseId: string, options: LeaseCallOptions | undefined): Promise<LeaseResponseLike> {
    const nth = this.callsOf(operation).length;
    const call = { operation, leaseId, at: elapsed(), options };
    this.calls.push(call);
    const script = this.script[operation] ?? ok;
    let answer: Answer | undefined;
    if (typeof script === "function") answer = script(call.at, nth);
    else if (Array.isArray(script)) answer = (script as readonly Answer[])[Math.min(nth, script.length - 1)];
    else answer = script as Answer;
    if (!answer) throw new Error(`no answer to ${operation} in the script`);
    return give(answer, options?.abortSignal, () => ({ leaseId: answer.leaseId ?? leaseId }));
  }
}
