/** Inboxes as applications write them: the contract is small, and the consumer does not rely on their good behaviour. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { enqueue, QueueConsumer } from "../../src/index.js";
import type { AdapterRequest, Inbox, InboxClaim, InboxClaimResult, InboxDelivery, QueueConsumerEvents, QueueConsumerOptions } from "../../src/index.js";
import { FakeQueue } from "./fakes/fake-queue.js";

/** An inbox behind an HTTP service: one request for each step, cancelled by the signal. */
class HttpInbox implements Inbox {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async prepare({ abortSignal }: AdapterRequest): Promise<void> {
    await fetch(this.#url, { signal: abortSignal });
  }

  claim(deliveries: readonly InboxDelivery[], request: AdapterRequest): Promise<InboxClaimResult[]> {
    return Promise.all(deliveries.map((delivery) => this.#claim(delivery, request)));
  }

  async #claim(delivery: InboxDelivery, request: AdapterRequest): Promise<InboxClaimResult> {
    const result = (await this.#post("claim", delivery, request)) as Exclude<InboxClaimResult, { kind: "claimed" }> | { kind: "claimed"; failures: number };
    if (result.kind !== "claimed") return result;
    const step = (name: string) => (options: AdapterRequest) => this.#post(name, delivery, options) as Promise<never>;
    return { kind: "claimed", claim: { failures: result.failures, renew: step("renew"), complete: step("complete"), release: (_failed, options) => step("release")(options) } };
  }

  async #post(step: string, delivery: InboxDelivery, { abortSignal }: AdapterRequest): Promise<unknown> {
    const response = await fetch(`${this.#url}${step}`, { method: "POST", body: JSON.stringify(delivery), signal: abortSignal });
    return response.json();
  }
}

describe("an inbox that passes its signal to fetch", () => {
  const records = new Map<string, { messageId: string; dequeueCount: number; state: "claimed" | "completed"; expiresAt: number }>();
  const log: string[] = [];
  let hang = false;
  let cancelled = 0;
  const server = createServer((request, response) => {
    if (hang) {
      response.once("close", () => cancelled++);
      return;
    }
    void request.setEncoding("utf8").toArray().then((chunks) => {
      const step = request.url!.slice(1);
      log.push(step);
      response.end(JSON.stringify(step === "" ? {} : serve(step, JSON.parse(chunks.join("")) as InboxDelivery)));
    });
  });

  function serve(step: string, { queueUrl, idempotencyKey, messageId, dequeueCount, claimDurationInMs }: InboxDelivery): unknown {
    const id = `${queueUrl} ${idempotencyKey}`;
    const found = records.get(id);
    const isOwn = found?.messageId === messageId && found.dequeueCount === dequeueCount;
    const record = { messageId, dequeueCount, state: "claimed" as const, expiresAt: Date.now() + claimDurationInMs };
    if (step === "claim") {
      if (found?.state === "completed") return { kind: "completed" };
      if (found && found.messageId !== messageId && found.expiresAt > Date.now()) return { kind: "busy", retryAfterInMs: found.expiresAt - Date.now() };
      if (found?.messageId === messageId && found.dequeueCount > dequeueCount) return { kind: "superseded" };
      records.set(id, record);
      return { kind: "claimed", failures: 0 };
    }
    if (!isOwn) return "lost";
    if (step === "release") records.delete(id);
    else records.set(id, step === "complete" ? { ...record, state: "completed" } : record);
    return step === "complete" ? "completed" : "renewed";
  }

  let url: string;
  beforeEach(async () => {
    [hang, cancelled] = [false, 0];
    records.clear();
    log.length = 0;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it("lets each key be handled once, by two consumers, however often it was sent", async () => {
    const queue = new FakeQueue();
    const keys = Array.from({ length: 20 }, (_, i) => `key ${i}`);
    for (const key of [...keys, ...keys]) await enqueue(queue, key, { idempotencyKey: key });
    const handled: string[] = [];
    const errors: unknown[] = [];
    const consumers = [1, 2].map(() => new QueueConsumer<string>(queue, (key) => void handled.push(key), { inbox: new HttpInbox(url), concurrency: 4, minPollIntervalInMs: 5, maxPollIntervalInMs: 5 }));
    for (const consumer of consumers) await consumer.on("error", (error) => errors.push(error)).start();
    await vi.waitFor(() => expect(queue.messages).toEqual([]), { timeout: 9_000 });
    await Promise.all(consumers.map((consumer) => consumer.stop()));
    expect(handled.toSorted()).toEqual(keys.toSorted());
    expect(errors).toEqual([]);
    expect(log.filter((step) => step === "complete")).toHaveLength(20);
  });

  it("has its requests cancelled when the consumer stops, and the messages are released at once", async () => {
    const queue = new FakeQueue();
    const handler = vi.fn();
    const consumer = new QueueConsumer(queue, handler, { inbox: new HttpInbox(url), minPollIntervalInMs: 5 });
    await consumer.start();
    hang = true;
    await enqueue(queue, "p");
    consumer.notify();
    await vi.waitFor(() => expect(queue.visible).toEqual([]));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await consumer.stop();
    await vi.waitFor(() => expect(cancelled).toBe(1));
    expect(handler).not.toHaveBeenCalled();
    expect(queue.visible).toHaveLength(1);
  });
});

describe("an inbox that", () => {
  let queue: FakeQueue;
  let consumer: QueueConsumer;
  let events: [keyof QueueConsumerEvents, unknown, number][];
  let started: number;

  beforeEach(() => {
    vi.useFakeTimers();
    queue = new FakeQueue();
    [events, started] = [[], Date.now()];
  });
  afterEach(async () => {
    const stopping = consumer.stop({ drainTimeoutInMs: 0 });
    await pass(3_000);
    await stopping;
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
  const names = (): string[] => events.map(([name]) => name);
  const never = <R>(): Promise<R> => new Promise(() => undefined);
  const claimWith = (claim: Partial<InboxClaim>): Inbox => ({
    prepare: async () => undefined,
    claim: async (deliveries) => deliveries.map(() => ({ kind: "claimed", claim: { failures: 0, renew: async () => "renewed", complete: async () => "completed", release: async () => undefined, ...claim } })),
  });

  /** Lets a handler run until its signal aborts. A message is hidden for 10 seconds, and a claim lasts for 20. */
  async function consume(inbox: Inbox, handler?: (payload: unknown, context: { signal: AbortSignal }) => unknown, options: QueueConsumerOptions<unknown> = {}): Promise<void> {
    await enqueue(queue, "p", { idempotencyKey: "k" });
    const untilAborted = (_: unknown, { signal }: { signal: AbortSignal }): Promise<void> => new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
    consumer = new QueueConsumer(queue, handler ?? untilAborted, { inbox, visibilityTimeoutInSeconds: 10, ...options });
    for (const event of ["completed", "duplicate", "retried", "lost", "error"] as const) consumer.on(event, (detail) => void events.push([event, detail, Date.now() - started]));
    await consumer.start();
  }

  it("returns lost responses to renewals: the claim counts from the first of them", async () => {
    let renewals = 0;
    await consume(claimWith({
      renew: () => {
        renewals++;
        if (renewals === 1) return Promise.reject(new Error("carried out, but the response was lost"));
        return renewals === 2 ? Promise.resolve("renewed") : never();
      },
    })); // prettier-ignore
    await pass(40_000);
    expect(names()).toEqual(["lost"]);
    expect(events[0]![1]).toMatchObject({ error: { code: "MESSAGE_LOST", reason: "claim" } });
    // Sent at 10 s and again at 11 s. The inbox keeps the claim until 30 s; a margin of 1 s is left.
    expect(events[0]![2]).toBeGreaterThanOrEqual(28_900);
    expect(events[0]![2]).toBeLessThanOrEqual(29_000);
  });

  it("never settles a renewal, and takes no notice of its signal: the claim ends before it expires, and is tried again meanwhile", async () => {
    const renew = vi.fn(() => never<"renewed">());
    await consume(claimWith({ renew }));
    await pass(19_500);
    expect(names()).toEqual(["lost"]);
    expect(events[0]![2]).toBeLessThanOrEqual(19_000);
    expect(renew.mock.calls.length).toBeGreaterThan(1);
  });

  it("never settles a claim is reported, its messages are released, and stop does not wait for it", async () => {
    const claim = vi.fn(() => never<InboxClaimResult[]>());
    const handler = vi.fn();
    await consume({ prepare: async () => undefined, claim }, handler);
    await pass(10_500);
    expect(names()).toEqual(["error"]);
    expect(queue.faults.count("update")).toBeGreaterThan(0);
    const begun = Date.now();
    const stopping = consumer.stop();
    await pass(10);
    await stopping;
    expect(Date.now() - begun).toBeLessThanOrEqual(10);
    expect(handler).not.toHaveBeenCalled();
    expect(queue.visible).toHaveLength(1);
  });

  it("never settles a completion: it is tried again while the message is held", async () => {
    let completions = 0;
    await consume(claimWith({ complete: () => (++completions < 3 ? never() : Promise.resolve("completed")) }), () => undefined);
    await pass(60_000);
    expect(names()).toEqual(["error", "error", "completed"]);
    expect(queue.messages).toEqual([]);
  });

  it("loses the claim while the handler runs: the message is not deleted, and its handler is told", async () => {
    const aborted: unknown[] = [];
    await consume(claimWith({ renew: async () => "lost" }), (_, { signal }) => new Promise<void>((resolve) => signal.addEventListener("abort", () => {
      aborted.push(signal.reason);
      resolve();
    }))); // prettier-ignore
    await pass(10_100);
    expect(aborted).toMatchObject([{ code: "MESSAGE_LOST", reason: "claim" }]);
    expect(names()).toEqual(["lost"]);
    expect(queue.messages).toHaveLength(1);
  });

  it.each<[string, Inbox["claim"]]>([
    ["too few results", async () => []],
    ["no results", async () => undefined as never],
    ["an unknown kind", async (deliveries) => deliveries.map(() => ({ kind: "done" }) as never)],
    ["a claim without a count of failures", (...call) => claimWith({ failures: undefined as never }).claim(...call)],
    ["a count of failures that is not a whole number", (...call) => claimWith({ failures: 0.5 }).claim(...call)],
    ["a negative count of failures", (...call) => claimWith({ failures: -1 }).claim(...call)],
    ["a count of claims that is none", (...call) => claimWith({ claims: NaN }).claim(...call)],
    ["no claim", async (deliveries) => deliveries.map(() => ({ kind: "claimed" }) as never)],
    ["a synchronous exception", () => { throw new Error("not async"); }], // prettier-ignore
  ])("responds to a claim with %s: nothing is handled, and the error is reported", async (_, claim) => {
    const handler = vi.fn();
    await consume({ prepare: async () => undefined, claim }, handler);
    await pass(5_000);
    expect(handler).not.toHaveBeenCalled();
    expect(names()).toContain("error");
    expect(queue.messages).toHaveLength(1);
  });

  it("responds to a renewal with something else has not renewed", async () => {
    await consume(claimWith({ renew: async () => true as never }));
    await pass(19_500);
    expect(names()).toEqual(["lost"]);
  });

  it("gets the delivery as the service sees it, and claims for twice the visibility timeout", async () => {
    const deliveries: InboxDelivery[] = [];
    await consume({ ...claimWith({}), claim: async (given) => {
      deliveries.push(...given);
      return given.map(() => ({ kind: "completed" }));
    } }); // prettier-ignore
    await pass(10);
    expect(deliveries).toEqual([
      {
        queueUrl: "https://account.queue.example/jobs", idempotencyKey: "k", messageId: "jobs-1", dequeueCount: 1, payloadHash: expect.stringMatching(/^[0-9a-f]{16}$/) as string,
        insertedOn: expect.any(Date) as Date, receivedOn: expect.any(Date) as Date, claimDurationInMs: 20_000,
      },
    ]); // prettier-ignore
    expect(names()).toEqual(["duplicate"]);
  });
});
