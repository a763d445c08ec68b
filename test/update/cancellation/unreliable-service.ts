import type { Random } from "../../../integration/chaos/random.js";
import { type Exchange, FakeService, type RequestRecord } from "../../fakes/fake-service.js";
import { busy, connectionReset, failAfterCommit, type Fault, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../../fakes/faults.js";

/** What was stored under a key at one time. */
export interface Version {
  readonly key: string;
  /** Undefined: it was deleted. */
  readonly value: unknown;
  readonly before: unknown;
}

/** A service on a network that loses, delays and repeats requests and responses at random, and remembers all that was ever stored. */
export class UnreliableService extends FakeService {
  readonly versions: Version[] = [];
  readonly #random: Random;
  /** Called before the service handles a request. */
  beforeServe: () => void = () => undefined;
  #calm = true;

  constructor(random: Random) {
    super();
    this.#random = random;
    const { resources, versions } = this;
    const set = resources.set.bind(resources);
    const remove = resources.delete.bind(resources);
    resources.set = (key, value) => {
      versions.push({ key, value, before: resources.get(key) });
      return set(key, value);
    };
    resources.delete = (key) => {
      versions.push({ key, value: undefined, before: resources.get(key) });
      return remove(key);
    };
  }

  /** From now on requests go wrong. */
  makeUnreliable(): void {
    this.#calm = false;
  }

  override request<R>(
    call: Pick<RequestRecord, "operation" | "kind" | "resource">,
    signal: AbortSignal | undefined,
    error: (status: number, code: string) => Error,
    serve: () => R,
  ): Promise<R> {
    const serveNow = (): R => {
      this.beforeServe();
      return serve();
    };
    if (!this.#calm) this.next("any", this.#draw(call.kind));
    return super.request(call, signal, error, serveNow);
  }

  #draw(kind: "read" | "write"): Fault {
    const random = this.#random;
    const there = random.pick([0, 0, random.between(1, 20), random.between(1, 300)]);
    const back = random.pick([0, 0, random.between(1, 20), random.between(1, 300)]);
    const arrivesLate = random.next() < 0.5 ? random.between(0, 3_000) : undefined;
    const travel = (fault: Fault): Fault => travelling(there, back, arrivesLate, fault);
    const chance = random.next();
    if (chance < (kind === "read" ? 0.8 : 0.55)) return travel((exchange) => exchange.send());
    return random.pick<Fault>([
      travel(loseAnswer),
      travel(loseAnswer),
      travel(loseAnswerForGood),
      travel(loseAnswerForGood),
      travel(loseRequest),
      travel(busy),
      travel(loseAnswerThenBusy),
      travel(failAfterCommit),
      lateArrival(random.between(0, 3_000)),
      lateArrival(random.between(0, 30_000)),
      hang,
      hangAfterCommit,
    ]);
  }
}

/**
 * A request and its response take time. If the caller aborts meanwhile, the request arrives all the same after `arrivesLateInMs`,
 * or never if that is undefined.
 */
function travelling(thereInMs: number, backInMs: number, arrivesLateInMs: number | undefined, fault: Fault): Fault {
  return async <R>(exchange: Exchange<R>): Promise<R> => {
    let arrived = false;
    const slowly: Exchange<R> = {
      ...exchange,
      send: (onTheWay) =>
        exchange.send(async () => {
          await onTheWay?.();
          try {
            await wait(thereInMs, exchange.signal);
          } catch (error) {
            if (arrivesLateInMs !== undefined && !arrived) setTimeout(() => serveAnyway(exchange), arrivesLateInMs);
            throw error;
          }
          arrived = true;
        }),
    };
    const sent = await fault(slowly);
    await wait(backInMs, exchange.signal);
    return sent;
  };
}

/** The response is lost, the SDK sends again, and the service is too busy to handle that: the SDK reports the 503. */
const loseAnswerThenBusy: Fault = async (exchange) => {
  await exchange.send().catch(() => undefined);
  return busy(exchange);
};

/** The client takes the request for lost, and it arrives later. */
function lateArrival(afterInMs: number): Fault {
  return async (exchange) => {
    await exchange.sendIntoTheVoid();
    setTimeout(() => serveAnyway(exchange), afterInMs);
    throw connectionReset();
  };
}

function serveAnyway(exchange: Exchange<unknown>): void {
  try {
    exchange.serve();
  } catch {
    // rejected, and no client waits for the response
  }
}

/** Rejects when the signal aborts. Its listener does not count as a send. */
function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (ms === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      if (signal) EventTarget.prototype.removeEventListener.call(signal, "abort", abort);
    };
    const abort = (): void => {
      end();
      reject(new DOMException("The operation was aborted.", "AbortError"));
    };
    const timer = setTimeout(() => {
      end();
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else if (signal) EventTarget.prototype.addEventListener.call(signal, "abort", abort);
  });
}
