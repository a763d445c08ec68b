import { pass } from "./faults.js";
import type { Fault } from "./faults.js";

/** One call of a client, however often it was sent. */
export interface RequestRecord {
  readonly operation: string;
  readonly kind: "read" | "write";
  readonly resource: string;
  /** Who sent it, if it matters who reads after a write. */
  readonly client?: unknown;
  /** How often the client sent it. */
  sends: number;
  /** How often the service carried it out or refused it. */
  served: number;
}

/** One call in the hands of a fault: how it can be sent, and how this service words its errors. */
export interface Exchange<R> {
  /** Sends the request once and returns the answer. `onTheWay` is what happens before it arrives. */
  readonly send: (onTheWay?: () => unknown) => Promise<R>;
  /** Sends it, but it never arrives: the client has counted it as a send. */
  readonly sendIntoTheVoid: () => Promise<void>;
  /** What the service does with the request, without a client that waits for it. */
  readonly serve: () => R;
  readonly error: (status: number, code: string) => Error;
  readonly signal: AbortSignal | undefined;
}

type Matcher = "any" | "read" | "write" | (string & {});

/**
 * What the fake clients share: a log of requests, a script of faults, and a source of ETags. One `abort` listener is
 * added to the caller's signal for each send, as the HTTP client of the SDKs does.
 */
export class FakeService {
  readonly requests: RequestRecord[] = [];
  /** What clients of the same credentials have in common. */
  readonly pipeline = {};
  readonly resources = new Map<string, unknown>();
  #script: { match: Matcher; fault: Fault }[] = [];
  #permanent: { match: Matcher; fault: Fault }[] = [];
  #etags = 0;

  /** The next requests that match get these faults, one each, in order. */
  next(match: Matcher, ...faults: Fault[]): void {
    this.#script.push(...faults.map((fault) => ({ match, fault })));
  }

  /** All further requests that match get this fault, unless `next` has another for them. */
  each(match: Matcher, fault: Fault): void {
    this.#permanent.push({ match, fault });
  }

  /** No faults from now on. */
  heal(): void {
    this.#script = [];
    this.#permanent = [];
  }

  count(match: Matcher = "any"): number {
    return this.requests.filter((request) => matches(match, request)).length;
  }

  get operations(): string[] {
    return this.requests.map((request) => request.operation);
  }

  newETag(): number {
    return ++this.#etags;
  }

  /** When something is written, as the table service says it. */
  timestamp(): string {
    return "2030-01-01T00:00:00.0000000Z";
  }

  /** The Date header of a response. */
  date(): string | undefined {
    return undefined;
  }

  async request<R>(
    call: Pick<RequestRecord, "operation" | "kind" | "resource" | "client">,
    signal: AbortSignal | undefined,
    error: (status: number, code: string) => Error,
    serve: () => R,
  ): Promise<R> {
    const record: RequestRecord = { ...call, sends: 0, served: 0 };
    this.requests.push(record);
    const served = (): R => {
      record.served++;
      return serve();
    };
    const exchange: Exchange<R> = {
      send: (onTheWay) => onTheWire(record, signal, served, onTheWay),
      sendIntoTheVoid: () => onTheWire(record, signal, () => undefined),
      serve: served,
      error,
      signal,
    };
    const scripted = this.#script.find(({ match }) => matches(match, record));
    if (!scripted) return (this.#permanent.find(({ match }) => matches(match, record))?.fault ?? pass)(exchange);
    this.#script = this.#script.filter((other) => other !== scripted);
    return scripted.fault(exchange);
  }
}

function matches(match: Matcher, { operation, kind }: RequestRecord): boolean {
  return match === "any" || match === kind || match === operation;
}

async function onTheWire<R>(
  record: RequestRecord,
  signal: AbortSignal | undefined,
  serve: () => R,
  onTheWay?: () => unknown,
): Promise<R> {
  signal?.throwIfAborted();
  record.sends++;
  const listener = (): void => undefined;
  signal?.addEventListener("abort", listener);
  try {
    await onTheWay?.();
    signal?.throwIfAborted();
    const answer = serve();
    await Promise.resolve();
    return answer;
  } finally {
    signal?.removeEventListener("abort", listener);
  }
}
