import { PreconditionError } from "../../src/index.js";
import type { AdapterRequest, StoredValue, TargetAdapter } from "../../src/index.js";

/** What happens to one call of the store. `carryOut` performs it. */
export type StoreFault = (carryOut: () => unknown, request: AdapterRequest) => Promise<unknown>;

/** The response is lost after the store has carried out the write. */
export const loseResponse: StoreFault = async (carryOut) => {
  carryOut();
  throw new Error("connection reset");
};

/** The write does not arrive. */
export const loseWrite: StoreFault = () => Promise.reject(new Error("connection reset"));

let stores = 0;

/** A store in memory with versions as ETags, as an application would write it. It does not copy values: the library has to. */
export class OwnStore<T> implements TargetAdapter<T> {
  readonly kind = "memory";
  readonly url = `memory://store/${++stores}`;
  readonly calls: string[] = [];
  readonly requests: AdapterRequest[] = [];
  readonly keepsJournal: boolean;
  current: StoredValue<T> | undefined;
  #version = 0;
  readonly #faults: Record<"read" | "write" | "delete", StoreFault[]> = { read: [], write: [], delete: [] };

  constructor(value?: T, options: { keepsJournal?: boolean } = {}) {
    this.keepsJournal = options.keepsJournal ?? true;
    if (value !== undefined) this.put(value);
  }

  /** The faults of the next calls of this kind. */
  next(call: "read" | "write" | "delete", ...faults: StoreFault[]): void {
    this.#faults[call].push(...faults);
  }

  /** Another client writes, and keeps the journal. */
  put(value: T): void {
    this.#store(value, this.current?.journal);
  }

  read = (request: AdapterRequest): Promise<StoredValue<T> | undefined> => this.#call("read", request, () => this.current);

  write = (
    value: T,
    condition: { readonly ifMatch: string } | { readonly ifNoneMatch: "*" },
    journal: string | undefined,
    request: AdapterRequest,
  ): Promise<{ readonly etag: string }> =>
    this.#call("write", request, () => {
      const holds = "ifMatch" in condition ? this.current?.etag === condition.ifMatch : this.current === undefined;
      if (!holds) throw new PreconditionError("the stored version is another one");
      return this.#store(value, journal);
    });

  delete? = (ifMatch: string, request: AdapterRequest): Promise<void> =>
    this.#call("delete", request, () => {
      if (this.current?.etag !== ifMatch) throw new PreconditionError("the stored version is another one");
      this.current = undefined;
    });

  async #call<R>(name: "read" | "write" | "delete", request: AdapterRequest, carryOut: () => R): Promise<R> {
    this.calls.push(name);
    this.requests.push(request);
    const fault = this.#faults[name].shift();
    return (fault ? await fault(carryOut, request) : carryOut()) as R;
  }

  #store(value: T, journal: string | undefined): StoredValue<T> {
    return (this.current = { value, etag: `v${++this.#version}`, ...(this.keepsJournal && { journal }) });
  }
}
