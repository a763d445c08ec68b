import { describe, expect, it } from "vitest";
import { ClaimInbox, enqueue, MessageLostError, QueueConsumer } from "../../src/index.js";
import type { Inbox, MessageContext } from "../../src/index.js";
import { MemoryInbox } from "../../src/queue/inbox/memory-inbox.js";
import { abortTime, elapsed, pass, suspendMachine, useFakeClock } from "../lease/fakes/time.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { FakeTable } from "./fakes/fake-table.js";

useFakeClock();

/** Lets a handler work on a message, which is hidden for 60 seconds at a time, until its signal aborts. */
async function whileHandling(inbox: Inbox | undefined, test: (context: MessageContext) => Promise<void>): Promise<void> {
  const queue = new FakeQueue();
  await enqueue(queue, "payload");
  const contexts: MessageContext[] = [];
  const handler = (_payload: unknown, context: MessageContext): Promise<never> => {
    contexts.push(context);
    return new Promise((_, reject) => context.signal.addEventListener("abort", () => reject(context.signal.reason as Error)));
  };
  const poisonQueue = new FakeQueue("poison");
  const consumer = new QueueConsumer(queue, handler, { poisonQueue, inbox, concurrency: 1, visibilityTimeoutInSeconds: 60 });
  await consumer.start();
  await pass(10);
  await test(contexts[0]!);
  const stopping = consumer.stop();
  await pass(120_000);
  await stopping;
}

const inboxes: readonly (readonly [string, () => Inbox | undefined])[] = [
  ["without an inbox", () => undefined],
  ["with an inbox in memory", () => new MemoryInbox()],
  ["with an inbox in a table", () => new ClaimInbox(new FakeTable())],
];

describe.each(inboxes)("a handler of a message %s", (_, inbox) => {
  it("is told within a second of the resume that its message was lost while the machine was suspended", () =>
    whileHandling(inbox(), async ({ signal }) => {
      const aborted = abortTime(signal);
      await pass(10_000);
      suspendMachine(300_000);
      const resumedAt = elapsed();
      await pass(1_000);
      expect(aborted.at).toBeLessThanOrEqual(resumedAt + 1_000);
      expect(signal.reason).toBeInstanceOf(MessageLostError);
    }));

  it.each<[string, (context: MessageContext) => void]>([
    ["assertHeld", ({ assertHeld }) => assertHeld()],
    ["signal.throwIfAborted", ({ signal }) => signal.throwIfAborted()],
    ["signal.aborted", ({ signal }) => {
      if (signal.aborted) throw signal.reason;
    }], // prettier-ignore
  ])("that asks right after the resume, before any timer fires, is told by %s", (_name, ask) =>
    whileHandling(inbox(), async (context) => {
      await pass(10_000);
      ask(context);
      suspendMachine(300_000);
      expect(() => ask(context)).toThrow(MessageLostError);
      expect(context.signal.reason).toBeInstanceOf(MessageLostError);
    }));

  it("keeps its message if the suspension ends before the message is visible again", () =>
    whileHandling(inbox(), async ({ signal }) => {
      await pass(10_000);
      suspendMachine(40_000);
      await pass(300_000);
      expect(signal.aborted).toBe(false);
    }));
});

describe.each(inboxes.slice(1))("a handler of a message %s", (_, inbox) => {
  it("is told within a second of the resume that its claim expired, although the message is still hidden", () =>
    whileHandling(inbox(), async ({ signal, extend }) => {
      const aborted = abortTime(signal);
      await extend({ durationInMs: 3_600_000 });
      await pass(10_000);
      suspendMachine(300_000);
      const resumedAt = elapsed();
      await pass(1_000);
      expect(aborted.at).toBeLessThanOrEqual(resumedAt + 1_000);
      expect(signal.reason).toMatchObject({ name: "MessageLostError", reason: "claim" });
    }));
});
