import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import type { Clock } from "../core/stopwatch.js";
import { redactUrl } from "../core/telemetry.js";
import { checkSchema } from "../target/content.js";
import type { MessageInfo } from "./context.js";
import { byteLength, checkKey, maxMessageBytes, openEnvelope, sealEnvelope } from "./envelope.js";
import type { Envelope } from "./envelope.js";
import type { InboxDelivery } from "./inbox/inbox.js";
import { MessageLease } from "./message-lease.js";
import type { ConsumerSettings, MessageProperties } from "./options.js";

/** A message from its receipt until it is settled. */
export class ReceivedMessage<T> {
  readonly message: QueueMessageLike;
  readonly lease: MessageLease;
  readonly #queue: QueueLike;
  readonly #settings: ConsumerSettings<T>;
  readonly #clock: Clock;
  readonly #receivedOn: number;
  #envelope: Envelope | undefined;
  #key: string | undefined;
  #checkpoint: unknown;
  #payload: T | undefined;
  /** As counted by the inbox, which may be lower than the count of the queue. */
  #attempts = Infinity;

  /** `clock` was started before the receive was sent; `receivedOn` is the time of the service's response. */
  constructor(queue: QueueLike, message: QueueMessageLike, settings: ConsumerSettings<T>, clock: Clock, receivedOn: Date | undefined) {
    this.#queue = queue;
    this.message = message;
    this.#settings = settings;
    this.#clock = clock;
    this.#receivedOn = (receivedOn?.getTime() ?? Date.now()) - clock();
    this.lease = new MessageLease(queue, {
      messageId: message.messageId,
      popReceipt: message.popReceipt,
      visibilityInSeconds: settings.visibilityTimeoutInSeconds,
      clock,
      expiresInMs: message.expiresOn.getTime() - this.#receivedOn,
    });
  }

  /** Decodes the message. @throws if it cannot be decoded. */
  async open(): Promise<void> {
    const { decode, schema, encoding, idempotencyKey } = this.#settings;
    const envelope = openEnvelope(this.message.messageText, encoding);
    this.#envelope = envelope;
    this.#key = envelope.key;
    this.#checkpoint = envelope.checkpoint;
    const payload = decode ? await decode(envelope.text ?? JSON.stringify(envelope.body), this.#properties()) : (contentOf(envelope) as T);
    if (schema) await checkSchema(schema, payload, "read", redactUrl(this.#queue.url));
    if (idempotencyKey && envelope.key === undefined) this.#key = checkKey("the idempotency key", idempotencyKey(payload, this.#properties()));
    this.#payload = payload;
  }

  get payload(): T {
    return this.#payload as T;
  }

  get key(): string {
    return this.#key ?? this.message.messageId;
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

  setInboxAttempts(attempts: number): void {
    this.#attempts = attempts;
  }

  get info(): MessageInfo {
    const { messageId, insertedOn } = this.message;
    return { messageId, key: this.key, attempt: this.attempt, insertedOn };
  }

  /** The envelope, for the poison queue. Undefined: it could not be opened. */
  get content(): Envelope | undefined {
    return this.#envelope;
  }

  get delivery(): InboxDelivery {
    const { messageId, dequeueCount } = this.message;
    return {
      queue: this.#queue.name,
      key: this.key,
      messageId,
      dequeueCount,
      clock: this.#clock,
      serviceTime: () => this.#receivedOn + this.#clock(),
      visibilityInMs: this.#settings.visibilityTimeoutInSeconds * 1_000,
    };
  }

  /** @throws RangeError if the message would be too large. */
  setCheckpoint(checkpoint: unknown): void {
    const text = this.#textWith({ checkpoint });
    if (text === undefined) throw new RangeError(`with this checkpoint the message would be larger than ${maxMessageBytes} bytes`);
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
