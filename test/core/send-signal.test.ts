import { describe, expect, it, vi } from "vitest";
import { StopSignal } from "../../src/core/deadline.js";
import { request } from "../../src/core/request.js";
import { SendSignal } from "../../src/core/send-signal.js";
import { defineTarget, optimisticUpdate } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";

/** What a client does with its signal: a listener for each send, removed when the response has arrived. */
type Client = (signal: AbortSignal) => Promise<unknown>;

const listener = (): void => undefined;
const once: Client = async (signal) => {
  signal.addEventListener("abort", listener);
  await Promise.resolve();
  signal.removeEventListener("abort", listener);
};

/** The signals of a call of this client, and of the call after it. */
async function signalsOf(client: Client, timeoutInMs?: number, reusesSignal = true): Promise<[AbortSignal, AbortSignal]> {
  const signals: AbortSignal[] = [];
  const noting = (next: Client): Client => (signal) => {
    signals.push(signal);
    return next(signal);
  };
  await request(noting(client), { timeoutInMs, reusesSignal });
  await request(noting(once), { reusesSignal });
  return [signals[0]!, signals[1]!];
}

const reused = { reusesSignal: true } as const;

describe("the signal of an SDK call", () => {
  it("is left to the next call if the call succeeded with one send and left no listener", async () => {
    const [first, second] = await signalsOf(once);
    expect(second).toBe(first);
    expect(second).toBeInstanceOf(AbortSignal);
  });

  it("is its own if the client may keep it", async () => {
    const [first, second] = await signalsOf(once, undefined, false);
    expect(second).not.toBe(first);
  });

  it("counts the sends of each call anew", async () => {
    expect(await request(once, reused)).toMatchObject({ kind: "ok", sends: 1 });
    expect(await request(once, reused)).toMatchObject({ kind: "ok", sends: 1 });
    expect(await request(() => Promise.resolve(), reused)).toMatchObject({ kind: "ok", sends: 0 });
  });

  const notLeft: Readonly<Record<string, Client>> = {
    "the client has left a listener": async (signal) => signal.addEventListener("abort", listener),
    "the client has left an event handler": async (signal) => void (signal.onabort = listener),
    "a listener removes itself, which does not show": async (signal) => {
      signal.addEventListener("abort", listener, { once: true });
      signal.removeEventListener("abort", listener);
    },
    "the client sent twice": async (signal) => {
      await once(signal);
      await once(signal);
    },
    "the call failed, as a part of it may go on": async (signal) => {
      await once(signal);
      throw new Error("no response");
    },
  };
  it.each(Object.entries(notLeft))("is not left to the next call if %s", async (_, client) => {
    const [first, second] = await signalsOf(client);
    expect(second).not.toBe(first);
    expect(second.aborted).toBe(false);
  });

  it("is not left to the next call if it has aborted", async () => {
    const [first, second] = await signalsOf(() => new Promise(() => undefined), 1);
    expect(first.aborted).toBe(true);
    expect(second.aborted).toBe(false);
  });

  it("is not that of another call at the same time", async () => {
    const signals: AbortSignal[] = [];
    const noting: Client = (signal) => (signals.push(signal), once(signal));
    await Promise.all([request(noting, reused), request(noting, reused), request(noting, reused)]);
    expect(new Set(signals).size).toBe(3);
  });

  it("is used a thousand times at most: signals that a client derives from it are remembered with it", () => {
    const first = SendSignal.take(true);
    let uses = 1;
    let current = first;
    for (; uses <= 1_001; uses++) {
      current.free(true);
      current = SendSignal.take(true);
      if (current !== first) break;
    }
    expect(uses).toBeLessThanOrEqual(1_000);
    expect(uses).toBeGreaterThan(900); // an earlier test has used it
  });
});

describe("the signals that an update gives to its client", () => {
  /** The client of the fake service, which keeps the signals of its requests. */
  function keeping(credential?: object): { readonly blob: FakeBlockBlob; readonly signals: AbortSignal[] } {
    const signals: AbortSignal[] = [];
    class Keeping extends FakeBlockBlob {
      readonly credential = credential;

      override upload(...args: Parameters<FakeBlockBlob["upload"]>): ReturnType<FakeBlockBlob["upload"]> {
        signals.push(args[2]!.abortSignal as AbortSignal);
        return super.upload(...args);
      }
    }
    const blob = new Keeping(new FakeService());
    blob.put({ n: 0 });
    return { blob, signals };
  }

  /** The credential may still refresh its token with the first one. */
  it("are never those of another call with a token credential", async () => {
    const { blob, signals } = keeping({ getToken: () => undefined });
    for (let i = 0; i < 3; i++) await optimisticUpdate<Counter>(blob, increment);
    expect(new Set(signals).size).toBe(3);
  });

  it("are those of earlier calls with a key", async () => {
    const { blob, signals } = keeping();
    for (let i = 0; i < 3; i++) await optimisticUpdate<Counter>(blob, increment);
    expect(new Set(signals).size).toBeLessThan(3);
  });

  it("are never those of another call if it is a store of the caller", async () => {
    const signals = new Set<AbortSignal>();
    let [value, version] = [0, 0];
    const target = defineTarget<number>({
      kind: "store",
      url: "https://store.test/n",
      read: ({ abortSignal }) => {
        signals.add(abortSignal);
        return Promise.resolve({ value, etag: String(version) });
      },
      write: (next, _condition, _journal, { abortSignal }) => {
        signals.add(abortSignal);
        value = next;
        return Promise.resolve({ etag: String(++version) });
      },
    });
    for (let i = 0; i < 3; i++) await optimisticUpdate(target, (n) => n + 1);
    expect(signals.size).toBe(6);
  });
});

describe("StopSignal", () => {
  it("aborts the native signal made from it, before and after", () => {
    const early = new StopSignal();
    const { native } = early;
    early.abort();
    expect(native).toMatchObject({ aborted: true, reason: { name: "AbortError" } });
    expect(early).toMatchObject({ aborted: true, reason: native.reason as unknown });
    const late = new StopSignal();
    late.abort();
    expect(late.native.aborted).toBe(true);
  });

  it("calls each listener once, and none that another one has removed", () => {
    const signal = new StopSignal();
    const [first, second, third] = [vi.fn(() => signal.removeEventListener("abort", third)), vi.fn(), vi.fn()];
    signal.addEventListener("abort", first);
    const off = signal.onAbort(second);
    off();
    signal.addEventListener("abort", third);
    signal.abort();
    signal.abort();
    expect([first, second, third].map(({ mock }) => mock.calls.length)).toEqual([1, 0, 0]);
  });
});
