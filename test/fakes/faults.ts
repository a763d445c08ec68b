import { deferred } from "./deferred.js";
import type { Exchange } from "./fake-service.js";

/** What happens to one request between the client and the service. */
export type Fault = <R>(exchange: Exchange<R>) => Promise<R>;

export const pass: Fault = (exchange) => exchange.send();

/** The answer is lost, the SDK sends again by itself and reports the answer to the second try. */
export const loseAnswer: Fault = async (exchange) => {
  await exchange.send().catch(ignore);
  return exchange.send();
};

/**
 * A browser or a reverse proxy sends the request again below the SDK: the service gets it twice, and the SDK sees one send and
 * the response to the second copy.
 */
export const copyBelowSdk: Fault = (exchange) =>
  exchange.send(() => {
    try {
      exchange.serve();
    } catch {
      // the response to the first copy is lost
    }
  });

/** The answer is lost, and the SDK gives up. */
export const loseAnswerForGood: Fault = async (exchange) => {
  await exchange.send().catch(ignore);
  throw connectionReset();
};

/** The request is lost on its way, and the SDK gives up. */
export const loseRequest: Fault = async (exchange) => {
  await exchange.sendIntoTheVoid();
  throw connectionReset();
};

/** The service carries it out, and answers 500 all the same. */
export const failAfterCommit: Fault = async (exchange) => {
  await exchange.send().catch(ignore);
  throw exchange.error(500, "OperationTimedOut");
};

/** 503 before anything happened. */
export const busy: Fault = async (exchange) => {
  await exchange.sendIntoTheVoid();
  throw exchange.error(503, "ServerBusy");
};

/** 503 until this time. The SDK waits, and sends again by itself, as often as it does by default. */
export function busyUntil(endsAt: number): Fault {
  return async (exchange) => {
    for (const waitInMs of [0, 4_000, 12_000]) {
      if (performance.now() >= endsAt) return exchange.send();
      await exchange.sendIntoTheVoid();
      await delayOfSdk(waitInMs, exchange.signal);
    }
    return performance.now() >= endsAt ? exchange.send() : busy(exchange);
  };
}

/** Its listener counts as one of the SDK. */
function delayOfSdk(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(new DOMException("The operation was aborted.", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort);
  });
}

/** An answer of this status, and nothing else. */
export function answer(status: number, code: string): Fault {
  return async (exchange) => {
    await exchange.sendIntoTheVoid();
    throw exchange.error(status, code);
  };
}

/** Never arrives, never answers; ends when the caller aborts. */
export const hang: Fault = (exchange) => exchange.send(() => untilAborted(exchange.signal));

/** Carried out, but never answered; ends when the caller aborts. */
export const hangAfterCommit: Fault = async (exchange) => {
  await exchange.send().catch(ignore);
  return untilAborted(exchange.signal);
};

/** Runs `fn` before the request arrives: a foreign writer, say. */
export function before(fn: () => unknown): Fault {
  return (exchange) => exchange.send(fn);
}

/** Runs `fn` after the service carried the request out, then does what `then` says with it. */
export function after(fn: () => unknown, then: Fault = pass): Fault {
  return <R>(exchange: Exchange<R>) => {
    let first = true;
    return then({
      ...exchange,
      send: async () => {
        const sent = await exchange.send();
        if (first) await fn();
        first = false;
        return sent;
      },
    });
  };
}

/** Stops the request, on its way to the service or back, until the test opens the gate. */
export interface Gate {
  readonly fault: Fault;
  /** Resolves when the request is at the gate. */
  readonly reached: Promise<void>;
  open(): void;
}

export function gate(where: "before" | "after" = "before"): Gate {
  const reached = deferred();
  const opened = deferred();
  return {
    reached: reached.promise,
    open: () => opened.resolve(),
    fault: async <R>(exchange: Exchange<R>): Promise<R> => {
      if (where === "before") {
        return exchange.send(() => {
          reached.resolve();
          return orAborted(opened.promise, exchange.signal);
        });
      }
      const sent = await exchange.send();
      reached.resolve();
      await orAborted(opened.promise, exchange.signal);
      return sent;
    },
  };
}

/** A request that the client takes for lost, and that arrives when the test says so. */
export function ghost(): { readonly fault: Fault; arrive(): void } {
  let serve: (() => unknown) | undefined;
  return {
    fault: async (exchange) => {
      serve = exchange.serve;
      await exchange.sendIntoTheVoid();
      throw connectionReset();
    },
    arrive: () => {
      try {
        serve?.();
      } catch {
        // refused, and nobody is there to hear it
      }
    },
  };
}

export function connectionReset(): Error {
  return Object.assign(new Error("socket hang up"), { name: "RestError", code: "ECONNRESET" });
}

async function orAborted(promise: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  await Promise.race([promise, ...(signal ? [untilAborted(signal)] : [])]);
}

function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => {
      reject(new DOMException("The operation was aborted.", "AbortError"));
    };
    if (signal?.aborted) abort();
    // Taken by the test's own wait, not by a send: it must not be counted.
    else if (signal) EventTarget.prototype.addEventListener.call(signal, "abort", abort, { once: true });
  });
}

function ignore(): void {
  // whatever the answer was, it is lost
}
