import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import type { Clock } from "../core/stopwatch.js";
import { redactUrl } from "../core/telemetry.js";
import { checkSchema } from "../target/content.js";
import type { MessageInfo } from "./context.js";
import { byteLength, checkKey, maxMessageBytes, openEnvelope, sealEnvelope } from "./envelope.js";
import type { Envelope } from "./envelope.js";
import type { InboxDelivery } from "./inbox/inbox.js";
import { MessageLease } from "./message-lease.js";
import type { ConsumerSettings, MessageFacts } from "./options.js";

/** A message between its arrival and its end. */
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
  /** Lower than what the queue counts, if the inbox knows better. */
  #attempts = Infinity;

  /** `clock` was started before the receive was sent; `receivedOn` is when the service answered it. */
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
      lifeInMs: message.expiresOn.getTime() - this.#receivedOn,
    });
  }

  /** @throws what is wrong with the message, if it cannot be decoded. */
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

  /** How often a handler was started, with this delivery. */
  get attempt(): number {
    return Math.max(1, Math.min(this.#attempts, this.message.dequeueCount - (this.#envelope?.uncharged ?? 0)));
  }

  countedByInbox(attempts: number): void {
    this.#attempts = attempts;
  }

  get info(): MessageInfo {
    const { messageId, insertedOn } = this.message;
    return { messageId, key: this.key, attempt: this.attempt, insertedOn };
  }

  /** The content with nothing but the key, for the poison queue. Undefined: it could not even be opened. */
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

  /** @throws RangeError if there is no room for it. */
  setCheckpoint(checkpoint: unknown): void {
    const text = this.#textWith({ checkpoint });
    if (text === undefined) throw new RangeError(`with this checkpoint the message would be larger than ${maxMessageBytes} bytes`);
    this.#checkpoint = checkpoint;
    this.lease.setText(text);
  }

  /** Back to the queue without ever having been started: the delivery is not to be counted as an attempt. */
  returnUnstarted(delayInSeconds = 0): Promise<unknown> {
    return this.lease.release(delayInSeconds, this.#textWith({ uncharged: this.uncountedDeliveries + 1 }));
  }

  get uncountedDeliveries(): number {
    return this.#envelope?.uncharged ?? 0;
  }

  #textWith(change: Partial<Envelope>): string | undefined {
    if (!this.#envelope) return undefined;
    const text = sealEnvelope({ ...this.#envelope, checkpoint: this.#checkpoint, ...change }, this.#settings.encoding);
    return byteLength(text) <= maxMessageBytes ? text : undefined;
  }

  #properties(): MessageFacts {
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
