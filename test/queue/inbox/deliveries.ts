import type { AdapterRequest } from "../../../src/clients/call.js";
import type { CommitInbox, CommitResult, InboxDelivery, TableAction } from "../../../src/index.js";

let messages = 0;

/** A delivery of a message, hidden for 60 seconds. */
export function deliver(idempotencyKey: string, properties: Partial<InboxDelivery> = {}): InboxDelivery {
  return {
    queueUrl: "https://account.queue.example/jobs",
    idempotencyKey,
    messageId: `message-${++messages}`,
    insertedOn: new Date(),
    dequeueCount: 1,
    group: undefined,
    sequence: undefined,
    payloadHash: "hash",
    claimDurationInMs: 120_000,
    receivedOn: new Date(),
    ...properties,
  };
}

/** The next delivery of the same message. */
export function again(delivery: InboxDelivery): InboxDelivery {
  return { ...delivery, dequeueCount: delivery.dequeueCount + 1 };
}

/** What the consumer passes to an inbox. */
export const request: AdapterRequest = { abortSignal: new AbortController().signal, tracingOptions: {} };

/** Commits without messages to send, as a handler does. */
export async function commit(inbox: CommitInbox, delivery: InboxDelivery, call: number, partitionKey: string, actions: readonly TableAction[]): Promise<CommitResult> {
  const { result } = await inbox.commit({ delivery, call, partitionKey }, actions, [], request);
  return result;
}
