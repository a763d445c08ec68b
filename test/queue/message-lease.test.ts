import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { MessageLostError } from "../../src/index.js";
import { startStopwatch } from "../../src/core/deadline.js";
import { MessageLease } from "../../src/queue/message-lease.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import type { Fault } from "./fakes/faults.js";

let queue: FakeQueue;

beforeEach(() => {
  vi.useFakeTimers();
  queue = new FakeQueue();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Receives a message for 60 seconds. */
async function own(visibilityInSeconds = 60, expiresInMs = 1e9): Promise<MessageLease> {
  await queue.sendMessage("text");
  const clock = startStopwatch();
  const { receivedMessageItems } = await queue.receiveMessages({ visibilityTimeout: visibilityInSeconds });
  const { messageId, popReceipt } = receivedMessageItems[0]!;
  return new MessageLease(queue, { messageId, popReceipt, visibilityInSeconds, clock, expiresInMs });
}

/** Lets time pass; fails if the message could be had by somebody else while its owner was not told. */
async function pass(owner: MessageLease, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) {
    await vi.advanceTimersByTimeAsync(250);
    if (queue.visible.length > 0) expect(owner.signal.aborted).toBe(true);
  }
}

const reasonOf = (owner: MessageLease): string | undefined => (owner.signal.reason as MessageLostError | undefined)?.reason;

describe("while the handler runs, a renewal that is answered with", () => {
  it("success keeps the message, at half its time, for as long as it takes", async () => {
    const owner = await own();
    await pass(owner, 200_000);
    expect(owner.signal.aborted).toBe(false);
    expect(queue.faults.count("update")).toBe(6);
    expect(await owner.delete()).toBe("done");
    expect(queue.messages).toEqual([]);
  });

  it.each(["PopReceiptMismatch", "MessageNotFound"] as const)("%s tells at once that the message is another's", async (answer) => {
    const owner = await own();
    queue.staleAnswer = answer;
    queue.messages[0]!.popReceipt = "another's";
    await pass(owner, 29_000);
    expect(owner.signal.aborted).toBe(false);
    await pass(owner, 1_250);
    expect(reasonOf(owner)).toBe("taken");
    expect(owner.remainingInMs).toBe(0);
  });

  it.each<Fault>(["busy", "denied", "hang"])("%s is tried again until the time is over, and told before it is", async (fault) => {
    const owner = await own();
    queue.faults.always("update", fault);
    await pass(owner, 58_750);
    expect(owner.signal.aborted).toBe(false);
    expect(queue.faults.count("update")).toBeGreaterThan(3);
    await pass(owner, 1_000);
    expect(reasonOf(owner)).toBe("expired");
    expect(queue.visible).toEqual([]);
    await pass(owner, 1_000);
    expect(queue.visible).toHaveLength(1);
  });

  it.each<Fault>(["busy", "denied", "hang"])("%s, and then success, keeps the message", async (fault) => {
    const owner = await own();
    queue.faults.next("update", fault, fault);
    await pass(owner, 200_000);
    expect(owner.signal.aborted).toBe(false);
    expect(await owner.delete()).toBe("done");
  });

  it.each<Fault>(["lost", "resent", "mute"])("%s leaves it adrift: nobody else can have it for the time that the update gave, but its receipt is gone", async (fault) => {
    const owner = await own();
    queue.faults.next("update", fault);
    await pass(owner, 88_000);
    expect(owner.signal.aborted).toBe(false);
    await pass(owner, 1_500);
    expect(reasonOf(owner)).toBe("expired");
    expect(queue.visible).toEqual([]);
    await pass(owner, 15_000);
    expect(queue.visible).toHaveLength(1);
  });
});

describe("when the handler is finishing, and a renewal is in flight that ends with", () => {
  it.each<[Fault, "done" | "unsettled"]>([
    ["ok", "done"],
    ["busy", "done"],
    ["denied", "done"],
    ["hang", "done"],
    ["lost", "unsettled"],
    ["resent", "unsettled"],
    ["mute", "unsettled"],
  ])("%s, the delete waits for it and is %s", async (fault, farewell) => {
    const owner = await own();
    queue.faults.next("update", fault);
    await vi.advanceTimersByTimeAsync(29_999);
    vi.advanceTimersByTime(1); // the renewal is sent, and has no answer yet
    const deleting = owner.delete();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await deleting).toBe(farewell);
    expect(queue.messages).toHaveLength(farewell === "done" ? 0 : 1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("that the message is another's, the delete does not touch it", async () => {
    const owner = await own();
    queue.messages[0]!.popReceipt = "another's";
    await vi.advanceTimersByTimeAsync(29_999);
    vi.advanceTimersByTime(1);
    expect(await owner.delete()).toBe("lost");
    expect(queue.faults.count("delete")).toBe(0);
    expect(reasonOf(owner)).toBe("taken");
  });
});

describe("when the handler has finished, a delete that is answered with", () => {
  it.each<Fault>(["ok", "lost", "resent", "mute", "busy", "denied", "hang"])("%s takes the message off the queue", async (fault) => {
    const owner = await own();
    queue.faults.next("delete", fault);
    const deleting = owner.delete();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(await deleting).toBe("done");
    expect(queue.messages).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("that it is another's leaves it alone", async () => {
    const owner = await own();
    queue.messages[0]!.popReceipt = "another's";
    expect(await owner.delete()).toBe("lost");
    expect(queue.messages).toHaveLength(1);
  });

  it("nothing but 503 is given up when the time is over", async () => {
    const owner = await own();
    queue.faults.always("delete", "busy");
    const deleting = owner.delete();
    await vi.advanceTimersByTimeAsync(61_000);
    expect(await deleting).toBe("lost");
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("a release", () => {
  it.each<Fault>(["ok", "lost", "resent", "busy", "hang"])("answered with %s makes the message visible after the delay, with the new text", async (fault) => {
    const owner = await own();
    queue.faults.next("update", fault);
    const releasing = owner.release(5, "new text");
    await vi.advanceTimersByTimeAsync(8_000);
    expect(await releasing).toBe("done");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(queue.visible.map((m) => m.text)).toEqual(["new text"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("that never gets through is given up after three tries", async () => {
    const owner = await own();
    queue.faults.always("update", "busy");
    const releasing = owner.release(0);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await releasing).toBe("unsettled");
    expect(queue.faults.count("update")).toBe(3);
  });
});

describe("time", () => {
  it("counts from before the request was sent", async () => {
    await queue.sendMessage("text");
    const clock = startStopwatch();
    await vi.advanceTimersByTimeAsync(20_000); // a slow receive
    const { receivedMessageItems } = await queue.receiveMessages({ visibilityTimeout: 60 });
    const { messageId, popReceipt } = receivedMessageItems[0]!;
    const owner = new MessageLease(queue, { messageId, popReceipt, visibilityInSeconds: 60, clock, expiresInMs: 1e9 });
    queue.faults.always("update", "hang");
    await vi.advanceTimersByTimeAsync(38_999);
    expect(owner.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(owner.signal.aborted).toBe(true);
  });

  it("in which the machine slept counts, though timers and the monotonic clock stood still", async () => {
    const owner = await own();
    vi.setSystemTime(Date.now() + 120_000);
    expect(owner.remainingInMs).toBeLessThanOrEqual(0);
    expect(await owner.delete()).toBe("lost");
  });

  it("that a handler has asked for is not cut short by the next renewal", async () => {
    const owner = await own();
    await owner.extend(600);
    expect(queue.messages[0]!.visibleAt).toBe(Date.now() + 600_000);
    await pass(owner, 400_000);
    expect(queue.messages[0]!.visibleAt).toBeGreaterThanOrEqual(Date.now() + 100_000);
    owner.abandon();
  });

  it("is not asked for beyond the life of the message", async () => {
    const owner = await own(60, 75_000);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(queue.messages[0]!.visibleAt).toBe(Date.now() + 45_000);
    owner.abandon();
    expect(vi.getTimerCount()).toBe(0);
  });
});

it("writes a text that was set with the next renewal, once", async () => {
  const owner = await own();
  owner.setText("checkpoint");
  await vi.advanceTimersByTimeAsync(30_000);
  expect(queue.messages[0]!.text).toBe("checkpoint");
  queue.messages[0]!.text = "changed";
  await vi.advanceTimersByTimeAsync(30_000);
  expect(queue.messages[0]!.text).toBe("changed");
  owner.abandon();
});
