import { describe, expect, it, vi } from "vitest";
import { BlobLocks, ClaimInbox, ConcurrentQueue } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { FakeTable } from "../queue/fakes/fake-table.js";

const textOf = (queue: FakeQueue): string => queue.messages[0]!.text;

describe("ConcurrentQueue", () => {
  it("passes its options on", async () => {
    const [client, poisonQueue] = [new FakeQueue(), new FakeQueue("jobs-poison")];
    const jobs = new ConcurrentQueue<number>(client, { encoding: "base64", poisonQueue });
    await jobs.enqueue(1, { idempotencyKey: "k" });
    expect(openEnvelope(textOf(client), "base64")).toEqual({ asc: 1, key: "k", body: 1 });
    expect(await jobs.redrive()).toEqual({ moved: 0, skipped: 0 });
    await expect(new ConcurrentQueue(client).redrive()).rejects.toThrow(TypeError);
    const seen: number[] = [];
    const consumer = jobs.consume((n) => void seen.push(n));
    const completed = new Promise((resolve) => consumer.once("completed", resolve));
    await consumer.start();
    await completed;
    await consumer.stop();
    expect(seen).toEqual([1]);
  });

  it("sends with its defaults, which an explicit undefined does not remove, and a value of the call replaces", async () => {
    const client = new FakeQueue();
    const send = vi.spyOn(client, "sendMessage");
    const jobs = new ConcurrentQueue<number>(client, { encoding: "base64", enqueueDefaults: { timeToLiveInSeconds: 60 } });
    await jobs.enqueue(1, { timeToLiveInSeconds: undefined, encoding: undefined });
    await jobs.enqueue(2, { timeToLiveInSeconds: 90, encoding: "text" });
    expect(send.mock.calls.map(([, options]) => options?.messageTimeToLive)).toEqual([60, 90]);
    expect(openEnvelope(client.messages[0]!.text, "base64").body).toBe(1);
    expect(openEnvelope(client.messages[1]!.text, "text").body).toBe(2);
    const other = new ConcurrentQueue<number>(client, { encoding: "base64", enqueueDefaults: { encoding: "text" } });
    await other.enqueue(3);
    expect(openEnvelope(client.messages[2]!.text, "text").body).toBe(3);
  });

  it("keeps its inbox if a call passes undefined", async () => {
    const client = new FakeQueue();
    const table = new FakeTable();
    const jobs = new ConcurrentQueue<number>(client, { inbox: new ClaimInbox(table) });
    await jobs.enqueue(1);
    const consumer = jobs.consume(() => undefined, { inbox: undefined });
    const completed = new Promise((resolve) => consumer.once("completed", resolve));
    await consumer.start();
    await completed;
    await consumer.stop();
    expect(table.records).toMatchObject([{ state: "done" }]);
  });

  it("checks its client and its options when it is made", () => {
    const client = new FakeQueue();
    expect(() => new ConcurrentQueue(undefined as unknown as FakeQueue)).toThrow(/ConcurrentQueue needs a QueueClient/);
    expect(() => new ConcurrentQueue(client, { concurrency: 0 })).toThrow(RangeError);
    expect(() => new ConcurrentQueue(client, { retryDelay: 0 } as object)).toThrow(/unknown option "retryDelay"/);
    expect(() => new ConcurrentQueue(client, { enqueueDefaults: { delayInMs: 1 } as object })).toThrow(/unknown option "delayInMs"/);
  });

  it("changes its metadata under a lock", async () => {
    const server = new FakeLeaseServer();
    const client = new FakeQueue();
    let metadata: Record<string, string> = { a: "1" };
    client.getProperties = async () => ({ metadata });
    const leasedDuringWrite: boolean[] = [];
    Object.assign(client, {
      setMetadata: async (next: Record<string, string>) => {
        leasedDuringWrite.push(server.isLeased("locks/jobs"));
        metadata = next;
        return {};
      },
    });
    const lock = { locks: new BlobLocks(server.container()), name: "jobs" };
    await new ConcurrentQueue(client).updateMetadata((current) => ({ ...current, b: "2" }), { lock });
    expect(metadata).toEqual({ a: "1", b: "2" });
    expect(leasedDuringWrite).toEqual([true]);
  });
});
