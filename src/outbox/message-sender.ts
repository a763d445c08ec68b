import type { AbortSignalLike } from "../clients/call.js";
import { isAborted } from "../core/deadline.js";
import { inParallel } from "../core/parallel.js";
import { Recent } from "../core/recent.js";
import { isParentNotFound, isTransient, isUnauthorized } from "../core/storage-errors.js";
import { isConcurrencyError } from "../errors.js";
import type { StoredMessage } from "../queue/inbox/stored-outgoing.js";
import { sendStored } from "../queue/outgoing.js";
import type { OutgoingQueues } from "../queue/outgoing.js";
import type { OutboxEvents } from "./outbox-options.js";
import { withDelayLeft } from "./outbox-rows.js";
import type { MessageRow } from "./outbox-rows.js";
import { QueueLane } from "./queue-lane.js";

/** How the messages of a row are sent. */
export interface SendOptions {
  readonly relayed: boolean;
  /** How long ago the row was committed: a delay counts from then. */
  readonly ageInMs: number;
  readonly abortSignal: AbortSignalLike | undefined;
}

/** The listeners of the outbox. */
export interface OutboxReports {
  readonly sent: (detail: OutboxEvents["sent"]) => void;
  readonly error: (error: unknown) => void;
}

/** How many messages of one row are sent at the same time. */
const concurrency = 16;

/** The queue has no client here. */
class UnknownQueueError extends Error {}

/** Sends the messages of committed rows: for the process that has committed them, and for the relay. */
export class MessageSender {
  readonly #queues: OutgoingQueues;
  readonly #reports: OutboxReports;
  /** Bounded: a row that another program has written may name any queue. */
  readonly #lanes = new Recent<QueueLane>(1_000);

  constructor(queues: OutgoingQueues, reports: OutboxReports) {
    this.#queues = queues;
    this.#reports = reports;
  }

  /** Returns the messages that could not be sent. Does not reject. */
  async send({ messages }: MessageRow, options: SendOptions): Promise<readonly StoredMessage[]> {
    const unsent: StoredMessage[] = [];
    await inParallel(messages, concurrency, async (message) => {
      if (!(await this.#sendOne(message, options))) unsent.push(message);
    });
    return unsent;
  }

  async #sendOne(message: StoredMessage, { relayed, ageInMs, abortSignal }: SendOptions): Promise<boolean> {
    const { queue, key: idempotencyKey } = message;
    const send = async (): Promise<void> => sendStored("Outbox", withDelayLeft(message, ageInMs), this.#clientOf(message), { abortSignal });
    try {
      const lane = this.#lanes.get(queue, () => new QueueLane());
      if (!(await lane.run(send, (error) => !isAborted(abortSignal) && isFailureOfQueue(error)))) return false;
    } catch (error) {
      if (!isAborted(abortSignal)) this.#reports.error(error instanceof UnknownQueueError ? error.cause : error);
      return false;
    }
    this.#reports.sent({ queue, idempotencyKey, relayed });
    return true;
  }

  #clientOf(message: StoredMessage): ReturnType<OutgoingQueues["clientOf"]> {
    try {
      return this.#queues.clientOf(message);
    } catch (error) {
      throw new UnknownQueueError("no client", { cause: error });
    }
  }
}

/** Whether other messages to the queue would fail, too. Otherwise it is about this message: it is too large, or damaged. */
function isFailureOfQueue(error: unknown): boolean {
  return error instanceof UnknownQueueError || isTransient(error) || isConcurrencyError(error, "COMMIT_UNKNOWN") || isUnauthorized(error) || isParentNotFound(error);
}
