import type { Check } from "../check.js";
import { outcome, removal } from "../check.js";
import { exchange } from "../exchange.js";
import type { QueueRow, QueueSubject } from "../rows/queue.js";
import { queueRows, receiptResponses } from "../rows/queue.js";
import type { Workspace } from "../workspace.js";

/** A queue with a message, which was received for so many seconds. Two requests, one more if it was received; and the removal. */
async function subject(workspace: Workspace, visibilityTimeout?: number): Promise<QueueSubject> {
  const queue = await workspace.queue();
  const service = await workspace.account.queueService();
  const { messageId, popReceipt } = await queue.sendMessage("first");
  if (visibilityTimeout === undefined) return { service, queue, messageId, popReceipt };
  const [received] = (await queue.receiveMessages({ visibilityTimeout })).receivedMessageItems;
  if (!received) throw new Error("a message that was just sent was not received");
  return { service, queue, messageId, popReceipt: received.popReceipt };
}

const plain = 2 + removal.plain;
const held = plain + 1;

async function textsOf({ queue }: QueueSubject): Promise<string[]> {
  return (await queue.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map(({ messageText }) => messageText);
}

async function receive({ queue }: QueueSubject): Promise<{ popReceipt: string; dequeueCount: number }[]> {
  return (await queue.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
}

const visibilityPolls = 20;

/** Waits for the end of a visibility timeout of one second. Costs one request, and extra polls. */
async function untilVisible(hidden: QueueSubject, workspace: Workspace): Promise<void> {
  await workspace.pause(1_250);
  await workspace.poll(() => textsOf(hidden), (texts) => texts.length > 0, visibilityPolls * 1_000);
}

type Part = Pick<Check, "name" | "expected" | "emulator" | "requests" | "polls" | "slow" | "run">;

function checksOf(row: QueueRow): Check[] {
  const parts = [responsePart(row), ...(row.concurrency === "pop receipt" ? receiptParts(row) : []), ...lastWriterParts(row)];
  return parts.map((part) => ({
    service: "queue", group: "Queues", source: row.source ?? "documented", helper: row.helper, ...part, name: `${row.operation}: ${part.name}`, needsKey: row.operation.endsWith("ACL"),
  }));
}

function responsePart(row: QueueRow): Part {
  return {
    name: "the response",
    expected: `passes, without an ETag, ${row.givesReceipt ? "a" : "no"} receipt`,
    requests: plain + 1,
    run: async (workspace) => {
      let receipt: unknown;
      const fresh = await subject(workspace);
      const { response, etag } = await exchange(async () => {
        const result = (await row.call(fresh, "value")) as { popReceipt?: string; receivedMessageItems?: { popReceipt: string }[] };
        receipt = result.popReceipt ?? result.receivedMessageItems?.[0]?.popReceipt;
        return result;
      });
      return `${outcome(response, undefined)}, ${etag === undefined ? "without" : "with"} an ETag, ${typeof receipt === "string" ? "a" : "no"} receipt`;
    },
  };
}

function receiptParts(row: QueueRow): Part[] {
  const call = async (message: QueueSubject): Promise<string> => (await exchange(() => row.call(message, "value"))).response;
  return [
    { name: "the current receipt", expected: "204", requests: held + 1, run: async (workspace) => call(await subject(workspace, 30)) },
    {
      name: "the receipt of before an update",
      expected: receiptResponses.stale.azure,
      emulator: receiptResponses.stale.azurite,
      requests: held + 2,
      run: async (workspace) => {
        const message = await subject(workspace, 30);
        await message.queue.updateMessage(message.messageId, message.popReceipt, "other", 30);
        return call(message);
      },
    },
    {
      name: "a malformed receipt",
      expected: receiptResponses.malformed.azure,
      emulator: receiptResponses.malformed.azurite,
      requests: held + 1,
      run: async (workspace) => call({ ...(await subject(workspace, 30)), popReceipt: "nonsense" }),
    },
    {
      name: "after the visibility timeout",
      expected: "204",
      slow: true,
      requests: held + 2,
      polls: visibilityPolls,
      run: async (workspace) => {
        const late = await subject(workspace, 1);
        await untilVisible(late, workspace);
        return call(late);
      },
    },
    {
      name: "after another consumer has received the message",
      expected: `received 2 times, ${receiptResponses.stale.azure}`,
      emulator: `received 2 times, ${receiptResponses.stale.azurite}`,
      slow: true,
      requests: held + 3,
      polls: visibilityPolls,
      run: async (workspace) => {
        const late = await subject(workspace, 1);
        await untilVisible(late, workspace);
        const [again] = await receive(late);
        return `received ${again?.dequeueCount ?? 0} times, ${await call(late)}`;
      },
    },
  ];
}

function lastWriterParts(row: QueueRow): Part[] {
  const { read } = row;
  if (!read) return [];
  const run = async (workspace: Workspace): Promise<string> => {
    const fresh = await subject(workspace);
    await row.call(fresh, "one");
    await read(fresh); // by two clients, which then write in turn
    const second = await exchange(() => row.call(fresh, "two"));
    const third = await exchange(() => row.call(fresh, "three"));
    return `${outcome(second.response, undefined)}, ${outcome(third.response, undefined)}, leaves ${(await read(fresh)) ?? "nothing"}`;
  };
  return [{ name: "two writers", expected: "passes, passes, leaves three", requests: plain + 5, run }];
}

const visibility: readonly Part[] = [
  {
    name: "Get Messages hides what it returns, Peek Messages does not",
    expected: "peek 1, peek 1, get 1, get 0, peek 0",
    requests: plain + 5,
    run: async (workspace) => {
      const fresh = await subject(workspace);
      const counts = [["peek", await textsOf(fresh)], ["peek", await textsOf(fresh)], ["get", await receive(fresh)], ["get", await receive(fresh)], ["peek", await textsOf(fresh)]] as const;
      return counts.map(([call, messages]) => `${call} ${messages.length}`).join(", ");
    },
  },
  {
    name: "a message that is received again has another receipt",
    expected: "received 2 times, another receipt",
    slow: true,
    requests: held + 2,
    polls: visibilityPolls,
    run: async (workspace) => {
      const message = await subject(workspace, 1);
      await untilVisible(message, workspace);
      const [again] = await receive(message);
      return `received ${again?.dequeueCount ?? 0} times, ${again?.popReceipt === message.popReceipt ? "the same" : "another"} receipt`;
    },
  },
  {
    name: "Update Message without a visibility timeout makes the message visible",
    expected: "given back",
    requests: held + 2,
    run: async (workspace) => {
      const message = await subject(workspace, 30);
      await message.queue.updateMessage(message.messageId, message.popReceipt, "given back");
      return (await textsOf(message)).join();
    },
  },
  {
    name: "Update Message overwrites what an earlier update wrote",
    expected: "two",
    requests: held + 3,
    run: async (workspace) => {
      const message = await subject(workspace, 30);
      const { popReceipt = "" } = await message.queue.updateMessage(message.messageId, message.popReceipt, "one", 30);
      await message.queue.updateMessage(message.messageId, popReceipt, "two", 0);
      return (await textsOf(message)).join();
    },
  },
  {
    name: "Clear Messages deletes hidden messages, too",
    expected: "404 MessageNotFound",
    requests: held + 2,
    run: async (workspace) => {
      const message = await subject(workspace, 30);
      await message.queue.clearMessages();
      return (await exchange(() => message.queue.deleteMessage(message.messageId, message.popReceipt))).response;
    },
  },
];

/** The settings of the account are not those of a run: it does not change them. */
const ofTheAccount = ({ operation }: QueueRow): boolean => operation === "Set Queue Service Properties";

/** The checks of rows that change settings of the account: for emulators only. */
export const accountSettingChecks: readonly Check[] = queueRows.filter(ofTheAccount).flatMap(checksOf);

export const queueChecks: readonly Check[] = [
  ...queueRows.filter((row) => !ofTheAccount(row)).flatMap(checksOf),
  ...visibility.map((part): Check => ({ service: "queue", group: "Visibility of messages", source: "documented", ...part })),
];
