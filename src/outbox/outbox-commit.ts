import type { AdapterRequest } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import type { EntityInput } from "../clients/table.js";
import type { PreparedMessage } from "../queue/enqueue.js";
import { queueIdentityOf } from "../queue/inbox/record.js";
import type { StoredMessage } from "../queue/inbox/stored-outgoing.js";
import { checkOutgoing } from "../queue/outgoing.js";
import { uploadPayload } from "../queue/overflow/upload-payload.js";
import { withTraceparent } from "../queue/traced-text.js";
import type { CompanionOutcome, TransactionCompanion } from "../transaction/companion.js";
import type { CommittedSends } from "./committed-sends.js";
import type { HeldMarker, HeldMarkers } from "./held-markers.js";
import { messageEntity } from "./outbox-rows.js";
import type { MessageRow } from "./outbox-rows.js";

interface AddedMessage {
  readonly client: QueueLike;
  readonly message: PreparedMessage;
  /** As far as it is known: the text of a payload in a blob is not. */
  readonly stored: StoredMessage;
}

/** The messages that one run of the function of a transaction has added: one row of the transaction. */
export class OutboxCommit implements TransactionCompanion {
  readonly #markers: HeldMarkers;
  readonly #marker: HeldMarker;
  readonly #sends: CommittedSends;
  readonly #added: AddedMessage[] = [];
  #row: MessageRow | undefined;
  #release: (() => void) | undefined;

  constructor(markers: HeldMarkers, marker: HeldMarker, sends: CommittedSends) {
    this.#markers = markers;
    this.#marker = marker;
    this.#sends = sends;
  }

  get count(): number {
    return this.#added.length;
  }

  /** @throws `RangeError` if the row could not contain all messages. */
  add(client: QueueLike, message: PreparedMessage): void {
    const { key, text, timing, large } = message;
    const added = { client, message, stored: { queue: queueIdentityOf(client.url), key, text: large ? "" : text, timing } };
    checkOutgoing("Outbox.add", [...this.#added, added]);
    this.#added.push(added);
  }

  /** After this, the commit may be sent: the marker is stored, and so are payloads that do not fit into a message. */
  async prepare(request: AdapterRequest): Promise<EntityInput> {
    const { partition: partitionKey } = this.#marker;
    const messages = await Promise.all(this.#added.map((added) => storedMessageOf(added, request)));
    await this.#markers.store(this.#marker, request.abortSignal);
    this.#row = { partitionKey, rowKey: this.#marker.nextRowKey(), messages };
    return messageEntity(this.#row);
  }

  onSend(): void {
    this.#release = this.#marker.use();
  }

  onOutcome(outcome: CompanionOutcome): void {
    if (outcome === "committed" && this.#row) this.#sends.add(this.#row, this.#marker);
    // The request may still be carried out: the relay finds the row, if there is one.
    if (outcome === "unknown") this.#marker.leave();
    this.#release?.();
    this.#release = undefined;
  }
}

/** If the process ends before it commits, the blob of a payload stays until `purgeOverflow` deletes it. */
async function storedMessageOf({ client, message, stored }: AddedMessage, request: AdapterRequest): Promise<StoredMessage> {
  const text = message.large ? await uploadPayload(client, message.large, request) : message.text;
  // The handler's span continues the trace of the transaction, whichever process sends the message.
  return { ...stored, text: withTraceparent(text, request.tracingOptions) };
}
