/** What may happen to a request. */
export type Fault =
  | "ok"
  /** Carried out, and the answer never comes: the SDK gives up with a network error. */
  | "lost"
  /** Carried out, the answer is lost, and the SDK sends it again. */
  | "resent"
  /** Not carried out: 503. */
  | "busy"
  /** Not carried out: 403. */
  | "denied"
  /** Not carried out, no answer until it is aborted. */
  | "hang"
  /** Carried out, no answer until it is aborted. */
  | "mute";

export function storageError(statusCode: number, code: string, message = code): Error {
  return Object.assign(new Error(message), { statusCode, code, details: { errorCode: code } });
}

/** Lets requests go wrong as told, and counts them. */
export class Faults {
  readonly #planned = new Map<string, Fault[]>();
  readonly #standing = new Map<string, Fault>();
  readonly log: string[] = [];

  /** For the next requests of a kind, in order. */
  next(kind: string, ...faults: Fault[]): void {
    this.#planned.set(kind, [...(this.#planned.get(kind) ?? []), ...faults]);
  }

  /** For all requests of a kind that nothing else is planned for. */
  always(kind: string, fault: Fault): void {
    this.#standing.set(kind, fault);
  }

  count(kind: string): number {
    return this.log.filter((entry) => entry === kind).length;
  }

  async request<R>(kind: string, signal: AbortSignal | undefined, act: () => R): Promise<R> {
    const fault = this.#planned.get(kind)?.shift() ?? this.#standing.get(kind) ?? "ok";
    this.#send(kind, signal);
    await Promise.resolve();
    switch (fault) {
      case "ok":
        return act();
      case "lost":
        act();
        throw Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
      case "resent":
        act();
        this.#send(kind, signal);
        await Promise.resolve();
        return act();
      case "busy":
        throw storageError(503, "ServerBusy");
      case "denied":
        throw storageError(403, "AuthorizationFailure");
      case "mute":
        act();
        return aborted(signal);
      case "hang":
        return aborted(signal);
    }
  }

  /** The HTTP clients of the SDKs add one abort listener for each send. */
  #send(kind: string, signal: AbortSignal | undefined): void {
    if (signal?.aborted) throw new DOMException("aborted", "AbortError");
    signal?.addEventListener("abort", () => undefined, { once: true });
    this.log.push(kind);
  }
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError"))));
}
