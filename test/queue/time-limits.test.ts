import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, enqueue } from "../../src/index.js";
import { rejection } from "../support/outcome.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { FakeTable } from "./fakes/fake-table.js";
import type { Fault } from "./fakes/faults.js";
import { deliver, request } from "./inbox/deliveries.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const never = (): Promise<never> => new Promise(() => undefined);

/** What the call rejects with, after this much time. */
async function after(ms: number, work: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  const error = rejection(work);
  await vi.advanceTimersByTimeAsync(ms);
  return error;
}

describe("enqueue", () => {
  const unknown = { code: "COMMIT_UNKNOWN", committed: "unknown", url: "https://account.queue.example/jobs", attempts: 1 };

  it.each(["hang", "mute"] as const)("ends after 30 seconds without a response (%s), with the key to repeat the call with", async (fault: Fault) => {
    const queue = new FakeQueue();
    queue.faults.next("send", fault);
    const error = await after(30_000, enqueue(queue, 1, { idempotencyKey: "k" }));
    expect(error).toMatchObject({ ...unknown, operationId: "k" });
    expect(error.message).toMatch(/idempotencyKey/);
  });

  it("names the key that it has made itself", async () => {
    const queue = new FakeQueue();
    queue.faults.next("send", "lost");
    const error = await rejection(enqueue(queue, 1));
    expect(error).toMatchObject({ ...unknown, cause: { code: "ECONNRESET" } });
    expect(JSON.parse(queue.messages[0]!.text)).toMatchObject({ key: error.operationId });
  });

  it("passes on what the service has rejected, and certainly not stored", async () => {
    const queue = new FakeQueue();
    queue.faults.next("send", "denied");
    expect(await rejection(enqueue(queue, 1))).toMatchObject({ statusCode: 403 });
    queue.exists = false;
    expect(await rejection(enqueue(queue, 1))).toMatchObject({ statusCode: 404 });
  });

  it("refuses a promise as a payload, which would be sent as an empty object", async () => {
    const queue = new FakeQueue();
    expect(await rejection(enqueue(queue, Promise.reject(new Error("unheard"))))).toMatchObject({ name: "TypeError" });
    expect(queue.faults.log).toEqual([]);
  });

  it("ends when it is cancelled, even if the client ignores its signal", async () => {
    const queue = Object.assign(new FakeQueue(), { sendMessage: never });
    const controller = new AbortController();
    const sending = rejection(enqueue(queue, 1, { abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort(new Error("enough"));
    expect(await sending).toMatchObject({ message: "enough" });
    expect((await after(30_000, enqueue(queue, 1))).code).toBe("COMMIT_UNKNOWN");
  });
});

describe("inbox.purge", () => {
  async function oldRecords(): Promise<{ table: FakeTable; inbox: ClaimInbox }> {
    const table = new FakeTable();
    const inbox = new ClaimInbox(table);
    const [result] = await inbox.claim([deliver("done")], request);
    if (result?.kind !== "claimed") throw new Error("not claimed");
    const completed = result.claim.complete(request);
    await vi.advanceTimersByTimeAsync(10);
    await completed;
    await inbox.claim([deliver("left")], request);
    await vi.advanceTimersByTimeAsync(9 * 86_400_000);
    return { table, inbox };
  }

  it.each(["transaction", "delete"])("ends after a minute without a response to a %s, and says what it has done", async (kind) => {
    const { table, inbox } = await oldRecords();
    table.faults.next(kind, "hang");
    const error = await after(60_000, inbox.purge());
    expect(error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: "unknown", url: "https://account.table.example/inbox" });
    expect(error.message).toContain(kind === "delete" ? "1 records were deleted" : "0 records were deleted");
  });

  it.each(["listEntities", "submitTransaction", "deleteEntity"] as const)("ends when it is cancelled during %s, or after a minute, even if the client ignores its signal", async (member) => {
    for (const cancelled of [true, false]) {
      const { table, inbox } = await oldRecords();
      const pages = { [Symbol.asyncIterator]: () => ({ next: never }) };
      Object.assign(table, { [member]: member === "listEntities" ? () => ({ byPage: () => pages }) : never });
      const controller = new AbortController();
      const purging = rejection(inbox.purge({ abortSignal: controller.signal }));
      await vi.advanceTimersByTimeAsync(10);
      if (cancelled) controller.abort(new Error("enough"));
      else await vi.advanceTimersByTimeAsync(60_000);
      expect(await purging).toMatchObject(cancelled ? { message: "enough" } : { code: "OPERATION_TIMEOUT" });
    }
  });
});
