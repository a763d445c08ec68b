import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import type { Clock } from "../core/deadline.js";
import { redactUrl } from "../core/telemetry.js";
import { createError, SchemaError } from "../errors.js";
import { checkKey as checkEntityKey } from "../target/table-entity.js";
import type { MessageInfo } from "./context.js";
import { byteLength, checkKey, decodeText, fingerprint, isCount, maxMessageBytes, parseEnvelope, sealEnvelope } from "./envelope.js";
import type { Envelope } from "./envelope.js";
import type { InboxDelivery } from "./inbox/inbox.js";
import { MessageLease } from "./message-lease.js";
import type { SettleResult } from "./message-lease.js";
import type { MessageProperties } from "./message-properties.js";
import { observed } from "./options.js";
import type { ConsumerSettings } from "./options.js";

/** The longest time for which the service hides a message. */
export const maxDelayInMs: number = 7 * 86_400_000;

/** With this room, the counts of a message can be written into its envelope: in base64, too. */
const roomForCounts = 128;

/** At most this many deliveries for each one that is counted: whatever the envelope says. */
const maxGivenBackShare = 20;

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
  /** Sent by another producer, without an envelope: other programs may read it, so it is never rewritten, except for a checkpoint. */
  #foreign = false;
  #key: string | undefined;
  #checkpoint: unknown;
  #payload: T | undefined;
  #partitionKey: string | undefined;
  #payloadHash = "";
  /** As counted by the inbox, for a message that cannot carry the count itself. */
  #claimFailures: number | undefined;

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
    const { decode, schema, encoding, idempotencyKeyOf, commits, maxDeliveries } = this.#settings;
    const text = decodeText(this.message.messageText, encoding);
    const parsed = parseEnvelope(text);
    const envelope: Envelope = parsed ?? { asc: 1, text };
    this.#foreign = parsed === undefined;
    this.#envelope = envelope;
    if (envelope.key !== undefined) this.#key = checkKey("the key of the message", envelope.key);
    this.#checkpoint = envelope.checkpoint;
    const content = envelope.text ?? JSON.stringify(envelope.body);
    this.#payloadHash = fingerprint(content);
    // No handler will get the payload, and its decoder or schema may be what ends the process each time. Its key is still needed, for the
    // inbox: another message may have completed it.
    if (this.deliveries > maxDeliveries && (this.#key !== undefined || !idempotencyKeyOf)) return;
    // Parsed anew: a handler may change its payload, and the envelope is written again when the message is released.
    const decoded = decode ? await decode(content, this.#properties()) : (parseContent(content) as T);
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

  /** For the handler, which may change it. */
  get copyOfCheckpoint(): unknown {
    return copyOf(this.#checkpoint);
  }

  /** 1 plus the number of failed attempts. */
  get attempt(): number {
    return this.#failures + 1;
  }

  /** How many deliveries may have started a handler, including this one: those that were given back are not counted. */
  get deliveries(): number {
    const { dequeueCount } = this.message;
    // A sender can write anything into its envelope: the count must grow all the same.
    return Math.max(dequeueCount - this.#givenBack, Math.floor(dequeueCount / maxGivenBackShare), 1);
  }

  /** How often it was given back: as the message says, or as often as it was delivered, if it cannot carry the count. */
  get givenBack(): number {
    return this.#hasRoomForCount ? this.#givenBack : this.message.dequeueCount - 1;
  }

  /** Why it should be in the poison queue already, which could not be reached at that time. */
  get poisonPending(): { readonly reason: string; readonly error: string | undefined } | undefined {
    const pending: unknown = this.#envelope?.poisonPending;
    if (typeof pending !== "object" || pending === null) return undefined;
    const { reason, error } = pending as Record<string, unknown>;
    return typeof reason === "string" ? { reason, error: typeof error === "string" ? error : undefined } : undefined;
  }

  /** Whether only the inbox can count the failures. */
  get needsClaimFailures(): boolean {
    return !this.#hasRoomForCount;
  }

  setClaimFailures(failures: number): void {
    this.#claimFailures = failures;
  }

  /** How long until the queue deletes it because its time to live is over. */
  get lifeInMs(): number {
    return this.lease.lifeInMs;
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
      payloadHash: this.#payloadHash,
      // Twice the visibility timeout: the claim is then renewed half as often, and only for long handlers.
      claimDurationInMs: this.#settings.visibilityTimeoutInSeconds * 2_000,
      receivedOn: this.#receivedOn,
    };
  }

  /** @throws `RangeError` if the message would be too large. */
  setCheckpoint(checkpoint: unknown): void {
    const text = this.#textWith({ checkpoint });
    if (text === undefined) throw new RangeError(`checkpoint: with this data the message would be larger than ${maxMessageBytes} bytes`);
    // A copy: the handler may go on with the same object, and it may not be writable any more when the message is released.
    this.#checkpoint = copyOf(checkpoint);
    // From now on it has an envelope.
    this.#foreign = false;
    this.lease.setText(text);
  }

  /** Releases the message as it is: the delivery counts, but not as a failure. */
  release(delayInMs: number): Promise<SettleResult> {
    return this.#release(delayInMs, {});
  }

  /** Gives the message back without a failure: no handler was started, or its end says nothing about the message. */
  giveBack(delayInMs = 0): Promise<SettleResult> {
    return this.#release(delayInMs, { uncharged: this.#givenBack + 1 });
  }

  /** Releases the message after a failed attempt, which is counted in the same request. */
  releaseFailed(delayInMs: number, failures: number = this.attempt): Promise<SettleResult> {
    return this.#release(delayInMs, { failures });
  }

  /** Releases a message that the poison queue did not take. The next delivery tries that again, without a handler. */
  releaseUnpoisoned(delayInMs: number, reason: string, error: string | undefined): Promise<SettleResult> {
    return this.#release(delayInMs, { failures: this.#failures, poisonPending: { reason, ...(error !== undefined && { error }) } });
  }

  /** At half of its remaining life at the latest: the queue deletes a message whose life is over, however often it was released. */
  #release(delayInMs: number, change: Partial<Envelope>): Promise<SettleResult> {
    const inMs = Math.min(delayInMs, maxDelayInMs, Math.max(0, this.lifeInMs / 2));
    return this.lease.release(Math.ceil(inMs / 1_000), this.#foreign ? undefined : this.#tryTextWith(change));
  }

  /** A damaged or forged count is replaced by what the queue says. */
  get #failures(): number {
    const before = Math.max(0, this.message.dequeueCount - 1);
    if (!this.#envelope) return 0;
    if (!this.#hasRoomForCount) return this.#claimFailures ?? before;
    const { failures = 0 } = this.#envelope;
    return isCount(failures) ? Math.min(failures, before) : before;
  }

  get #givenBack(): number {
    const given = this.#envelope?.uncharged;
    return isCount(given) ? Math.min(given, Math.max(0, this.message.dequeueCount - 1)) : 0;
  }

  get #hasRoomForCount(): boolean {
    return !this.#foreign && byteLength(this.message.messageText) <= maxMessageBytes - roomForCounts;
  }

  /** A forged envelope may be nested too deeply to be written again. The message must be released all the same. */
  #tryTextWith(change: Partial<Envelope>): string | undefined {
    try {
      return this.#textWith(change);
    } catch {
      return undefined;
    }
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

/** JSON where it is JSON, else the text itself. */
function parseContent(content: string): unknown {
  try {
    return JSON.parse(content) as unknown;
  } catch {
    return content;
  }
}

/** As it would be read back from the message. */
function copyOf(value: unknown): unknown {
  const json = JSON.stringify(value) as string | undefined;
  return json === undefined ? undefined : (JSON.parse(json) as unknown);
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
