import { QueueServiceClient } from "@azure/storage-queue";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { connectionString, freshQueue } from "../support/clients.js";
import { exchange } from "./exchange.js";
import { queueRows, type QueueSubject, receiptAnswers } from "./queue.rows.js";

const service = QueueServiceClient.fromConnectionString(connectionString());
let properties: Awaited<ReturnType<QueueServiceClient["getProperties"]>>;
beforeAll(async () => {
  properties = await service.getProperties();
});
// The service is shared by all tests.
afterAll(() => service.setProperties({ cors: properties.cors ?? [] }));

/** A queue whose message has been received for so long. */
async function subject(visibilityTimeout?: number): Promise<QueueSubject> {
  const queue = await freshQueue();
  const { messageId, popReceipt } = await queue.sendMessage("first");
  if (visibilityTimeout === undefined) return { service, queue, messageId, popReceipt };
  const { receivedMessageItems } = await queue.receiveMessages({ visibilityTimeout });
  return { service, queue, messageId, popReceipt: receivedMessageItems[0]!.popReceipt };
}

async function textsOf({ queue }: QueueSubject): Promise<string[]> {
  return (await queue.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map(({ messageText }) => messageText);
}

async function receive({ queue }: QueueSubject): Promise<{ popReceipt: string; dequeueCount: number }[]> {
  return (await queue.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
}

const untilVisible = (hidden: QueueSubject): Promise<void> => expect.poll(() => textsOf(hidden), { timeout: 10_000, interval: 100 }).toHaveLength(1);

describe.each(queueRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
  it(`returns no ETag, and ${row.givesReceipt ? "a" : "no"} receipt`, async () => {
    let receipt: unknown;
    const fresh = await subject();
    const { answer, etag } = await exchange(async () => {
      const response = (await row.call(fresh, "value")) as { popReceipt?: string; receivedMessageItems?: { popReceipt: string }[] };
      receipt = response.popReceipt ?? response.receivedMessageItems?.[0]?.popReceipt;
      return response;
    });
    expect(answer).toMatch(/^2\d\d$/);
    expect(etag).toBeUndefined();
    expect(typeof receipt).toBe(row.givesReceipt ? "string" : "undefined");
  });

  if (row.concurrency === "pop receipt") {
    it("goes through with the current receipt", async () => {
      const held = await subject(30);
      expect((await exchange(() => row.call(held, "value"))).answer).toBe("204");
    });

    it("is refused with the receipt of before an update", async () => {
      const held = await subject(30);
      await held.queue.updateMessage(held.messageId, held.popReceipt, "other", 30);
      expect((await exchange(() => row.call(held, "value"))).answer).toBe(receiptAnswers.stale.azurite);
    });

    it("is refused with a receipt that is none", async () => {
      const held = await subject(30);
      held.popReceipt = "nonsense";
      expect((await exchange(() => row.call(held, "value"))).answer).toBe(receiptAnswers.malformed.azurite);
    });

    it("goes through after the visibility timeout, until somebody else receives the message", async () => {
      const [late, tooLate] = [await subject(1), await subject(1)];
      await untilVisible(late);
      await untilVisible(tooLate);
      expect(await receive(tooLate)).toMatchObject([{ dequeueCount: 2 }]);
      expect((await exchange(() => row.call(late, "value"))).answer).toBe("204");
      expect((await exchange(() => row.call(tooLate, "value"))).answer).toBe(receiptAnswers.stale.azurite);
    });
  }

  if (row.read !== undefined) {
    const { read } = row;
    it("lets the last writer win", async () => {
      const fresh = await subject();
      await row.call(fresh, "one");
      await read(fresh); // by both, who then write in turn
      expect((await exchange(() => row.call(fresh, "two"))).answer).toMatch(/^2\d\d$/);
      expect((await exchange(() => row.call(fresh, "three"))).answer).toMatch(/^2\d\d$/);
      expect(await read(fresh)).toBe("three");
    });
  }
});

describe("visibility", () => {
  it("Get Messages hides what it gives, and Peek Messages does not", async () => {
    const fresh = await subject();
    expect(await textsOf(fresh)).toEqual(["first"]);
    expect(await textsOf(fresh)).toEqual(["first"]);
    expect(await receive(fresh)).toHaveLength(1);
    expect(await receive(fresh)).toHaveLength(0);
    expect(await textsOf(fresh)).toEqual([]);
  });

  it("a message that was received comes back with another receipt", async () => {
    const held = await subject(1);
    await untilVisible(held);
    const [again] = await receive(held);
    expect(again).toMatchObject({ dequeueCount: 2 });
    expect(again?.popReceipt).not.toBe(held.popReceipt);
  });

  it("Update Message without a visibility timeout gives the message back at once", async () => {
    const held = await subject(30);
    await held.queue.updateMessage(held.messageId, held.popReceipt, "given back");
    expect(await textsOf(held)).toEqual(["given back"]);
  });

  it("Update Message overwrites whatever an update before it wrote", async () => {
    const held = await subject(30);
    const { popReceipt = "" } = await held.queue.updateMessage(held.messageId, held.popReceipt, "one", 30);
    await held.queue.updateMessage(held.messageId, popReceipt, "two", 0);
    expect(await textsOf(held)).toEqual(["two"]);
  });

  it("Clear Messages takes those that are hidden too", async () => {
    const held = await subject(30);
    await held.queue.clearMessages();
    const gone = await exchange(() => held.queue.deleteMessage(held.messageId, held.popReceipt));
    expect(gone.answer).toBe("404 MessageNotFound");
  });
});
