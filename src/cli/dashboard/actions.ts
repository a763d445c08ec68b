import type { ReceivedMessageItem } from "@azure/storage-queue";
import type { QueueLike } from "../../clients/queue.js";
import { BlobLocks } from "../../lock/blob-locks.js";
import { redrive } from "../../queue/redrive.js";
import { triggerJob } from "../../schedule/job-calls.js";
import { JobStore } from "../../schedule/job-store.js";
import { describeLock } from "../commands/locks.js";
import { requireJob, statusIn } from "../commands/schedule.js";
import type { Account } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { receiveMessages } from "../receive-messages.js";
import { poisonQueueOf, versionOf } from "./collect-queue.js";
import type { Action } from "./snapshot.js";

type ActionOf<K extends Action["kind"]> = Extract<Action, { readonly kind: K }>;

/**
 * Does what the user has confirmed, to what was shown: what has changed since is left as it is.
 * @returns what was done, as a sentence.
 * @throws {@link CommandError} with `exitCodes.changed` if it is not as it was shown any more.
 */
export function performAction(account: Account, prefix: string, action: Action): Promise<string> {
  switch (action.kind) {
    case "break":
      return breakLock(account, prefix, action);
    case "redrive":
    case "delete":
      return settlePoison(account, action);
    case "trigger":
      return trigger(account, action);
  }
}

async function breakLock(account: Account, prefix: string, { container, name, epoch, etag }: ActionOf<"break">): Promise<string> {
  const locks = new BlobLocks(await account.container(container), { prefix });
  const broken = await locks.break(name, { expectedEpoch: epoch, expectedEtag: etag });
  if (!broken) throw changed(`The ${describeLock(name)} is not as it was shown any more.`);
  return `The ${describeLock(name)} was broken.`;
}

/** How many messages are received at most to find one of the 32 that are shown. */
const maxReceived = 320;

/** A message that was peeked cannot be deleted: it is received, with others, which are made visible again. */
async function settlePoison(account: Account, { kind, queue: name, id, version }: Extract<Action, { readonly queue: string }>): Promise<string> {
  const poisonQueue = await account.queue(poisonQueueOf(name));
  const queue = await account.queue(name);
  const progress = { received: 0, isDone: false };
  await receiveMessages(poisonQueue, async (fresh) => {
    const message = fresh.find(({ messageId }) => messageId === id);
    progress.received += fresh.length;
    if (!message) return progress.received < maxReceived;
    if (versionOf(message) !== version) return false;
    if (kind === "delete") await poisonQueue.deleteMessage(id, message.popReceipt);
    progress.isDone = kind === "delete" || (await redrive(onlyMessage(poisonQueue, message), queue, { insertedBefore: message.insertedOn })).moved === 1;
    if (!progress.isDone) throw new CommandError(exitCodes.failed, `The message cannot be sent to the queue ${JSON.stringify(name)}. It stays in the poison queue.`);
    return false;
  });
  if (!progress.isDone) throw changed("The message is not in the poison queue any more, or not as it was shown.");
  return kind === "delete" ? "The message was deleted." : `The message was moved to the queue ${JSON.stringify(name)}.`;
}

/** A poison queue as one that has nothing but this message, which was received. */
function onlyMessage(queue: QueueLike, message: ReceivedMessageItem): QueueLike {
  const left = [message];
  return Object.create(queue, { receiveMessages: { value: () => Promise.resolve({ receivedMessageItems: left.splice(0) }) } }) as QueueLike;
}

async function trigger(account: Account, { table, schedule, job, trigger: shown, key }: ActionOf<"trigger">): Promise<string> {
  const store = new JobStore(await account.table(table), schedule);
  const found = await requireJob(store, job);
  if (statusIn(job, () => store.stateOf(found)).trigger !== shown) throw changed(`The job ${JSON.stringify(job)} is not as it was shown any more.`);
  const run = await triggerJob(store, job, key, {});
  return `The job ${JSON.stringify(job)} was triggered: the run is ${run.state}.`;
}

function changed(message: string): CommandError {
  return new CommandError(exitCodes.changed, `${message} Nothing was changed.`);
}
