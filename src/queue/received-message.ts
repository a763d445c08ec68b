import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import type { Clock } from "../core/deadline.js";
import { redactUrl } from "../core/telemetry.js";
import { createError, SchemaError } from "../errors.js";
import { checkKey as checkEntityKey } from "../target/table-entity.js";
import type { MessageInfo } from "./context.js";
import { byteLength, checkKey, maxMessageBytes, openEnvelope, sealEnvelope } from "./envelope.js";
import type { Envelope } from "./envelope.js";
import type { InboxDelivery } from "./inbox/inbox.js";
import { MessageLease } from "./message-lease.js";
import type { MessageProperties } from "./message-properties.js";
import { observed } from "./options.js";
import type { ConsumerSettings } from "./options.js";

/** A message from its receipt until it is settled. */
export class ReceivedMessage<T> {
  readonly message: QueueMessageLike;
  readonly lease: MessageLease;
  /** Started before the receive was sent. */
  readonly clock: Clock;
  readonly #queue: QueueLike;
  readonly #settings: ConsumerSettings<T>;
  readonly #receivedOn: Date;
  readonly #receivedAfterInMs: number;
  #envelope: Envelope | undefined;
  #key: string | undefined;
  #checkpoint: unknown;
  #payload: T | undefined;
  #partitionKey: string | undefined;
  /** As counted by the inbox, which may be lower than the count of the queue. */
  #attempts = Infinity;

  /** `clock` was started before the receive was sent; `receivedOn` is the time of the service's response. */
  constructor(queue: QueueLike, message: QueueMessageLike, settings: ConsumerSettings<T>, clock: Clock, receivedOn: Date | undefined) {
    this.#queue = queue;
    this.message = message;
    this.#settings = settings;
    this.clock = clock;
    this.#receivedOn = receivedOn ?? new Date();
    this.#receivedAfterInMs = clock();
    this.lease = new MessageLease(queue, {
      messageId: message.messageId,
      popReceipt: message.popReceipt,
      visibilityInSeconds: settings.visibilityTimeoutInSeconds,
      clock,
      expiresInMs: message.expiresOn.getTime() - this.#receivedOn.getTime() + this.#receivedAfterInMs,
    });
  }

  /** Decodes the message. @throws `Error` if it cannot be decoded. */
  async open(): Promise<void> {
    const { decode, schema, encoding, idempotencyKeyOf, commits } = this.#settings;
    const envelope = openEnvelope(this.message.messageText, encoding);
    this.#envelope = envelope;
    this.#key = envelope.key;
    this.#checkpoint = envelope.checkpoint;
    const decoded = decode ? await decode(envelope.text ?? JSON.stringify(envelope.body), this.#properties()) : (contentOf(envelope) as T);
    const payload = schema ? await outputOf(schema, decoded, this.#queue.url) : decoded;
    if (idempotencyKeyOf && envelope.key === undefined) this.#key = checkKey("idempotencyKeyOf", observed(idempotencyKeyOf(payload, this.#properties())));
    if (commits) {
      this.#partitionKey = observed(commits.partitionOf(payload, { ...this.#properties(), idempotencyKey: this.key }));
      checkEntityKey("partitionOf", this.#partitionKey);
    }
    this.#payload = payload;
  }

  get payload(): T {
    return this.#payload as T;
  }

  get key(): string {
    return this.#key ?? this.message.messageId;
  }

  /** The partition of the effect, with a `CommitInbox`. */
  get partitionKey(): string | undefined {
    return this.#partitionKey;
  }

  get checkpoint(): unknown {
    return this.#checkpoint;
  }

  /** How often a handler was started for this message, including this delivery. */
  get attempt(): number {
    return Math.max(1, Math.min(this.#attempts, this.message.dequeueCount - this.uncountedDeliveries));
  }

  /** How many earlier deliveries never reached a handler. */
  get uncountedDeliveries(): number {
    return this.#envelope?.uncharged ?? 0;
  }

  setInboxFailures(failures: number): void {
    this.#attempts = failures + 1;
  }

  get info(): MessageInfo {
    return { ...this.#properties(), idempotencyKey: this.key, attempt: this.attempt };
  }

  /** How long the message was in the queue, by the clock of the service. */
  get waitedInMs(): number {
    const serviceTime = this.#receivedOn.getTime() + this.clock() - this.#receivedAfterInMs;
    return Math.max(0, Math.round(serviceTime - this.message.insertedOn.getTime()));
  }

  /** The envelope, for the poison queue. Undefined: it could not be opened. */
  get content(): Envelope | undefined {
    return this.#envelope;
  }

  get delivery(): InboxDelivery {
    return {
      ...this.#properties(),
      queueUrl: redactUrl(this.#queue.url),
      idempotencyKey: this.key,
      // Twice the visibility timeout: the claim is then renewed half as often, and only for long handlers.
      claimDurationInMs: this.#settings.visibilityTimeoutInSeconds * 2_000,
      receivedOn: this.#receivedOn,
    };
  }

  /** @throws `RangeError` if the message would be too large. */
  setCheckpoint(checkpoint: unknown): void {
    const text = this.#textWith({ checkpoint });
    if (text === undefined) throw new RangeError(`checkpoint: with this data the message would be larger than ${maxMessageBytes} bytes`);
    this.#checkpoint = checkpoint;
    this.lease.setText(text);
  }

  /** Releases a message whose handler was not started: the delivery is not counted as an attempt. */
  releaseUnstarted(delayInSeconds = 0): Promise<unknown> {
    return this.lease.release(delayInSeconds, this.#textWith({ uncharged: this.uncountedDeliveries + 1 }));
  }

  #textWith(change: Partial<Envelope>): string | undefined {
    if (!this.#envelope) return undefined;
    const text = sealEnvelope({ ...this.#envelope, checkpoint: this.#checkpoint, ...change }, this.#settings.encoding);
    return byteLength(text) <= maxMessageBytes ? text : undefined;
  }

  #properties(): MessageProperties {
    const { messageId, insertedOn, dequeueCount } = this.message;
    return { messageId, insertedOn, dequeueCount };
  }
}

function contentOf({ text, body }: Envelope): unknown {
  if (text === undefined) return body;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Nothing is written back, so properties that the schema removes are not lost: the handler gets the output as it is. */
async function outputOf<T>(schema: StandardSchemaLike<T>, value: unknown, queueUrl: string): Promise<T> {
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return result.value;
  const url = redactUrl(queueUrl);
  // Without the schema's messages: some quote the value, and error messages end up in logs.
  throw createError(SchemaError, `The payload of a message of ${url} does not match the schema: ${result.issues.length} issues (see issues)`, {
    url,
    phase: "read",
    issues: result.issues,
    etag: undefined,
  });
}
