import type { QueueLike, QueueMessageLike } from "../clients/queue.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import type { Clock } from "../core/deadline.js";
import { observed } from "../core/pending-call.js";
import { redactUrl } from "../core/telemetry.js";
import { createError, SchemaError } from "../errors.js";
import { checkKey as checkEntityKey } from "../target/table-entity.js";
import type { MessageInfo } from "./context.js";
import { byteLength, checkKey, checkSequence, decodeText, fingerprint, isCount, isLaterEnvelope, isReferenceBody, maxDelayInMs, maxMessageBytes, parseEnvelope, sealEnvelope, withoutForgedBookkeeping } from "./envelope.js";
import type { Envelope } from "./envelope.js";
import type { InboxClaim, InboxDelivery } from "./inbox/inbox.js";
import { MessageLease } from "./message-lease.js";
import type { SettleResult } from "./message-lease.js";
import type { MessageProperties } from "./message-properties.js";
import type { ConsumerSettings } from "./options.js";
import { parseReference, PayloadUnavailableError, UnusablePayloadError } from "./overflow/reference.js";
import { readPayload } from "./overflow/stored-payload.js";
import type { StoredPayload } from "./overflow/stored-payload.js";

/**
 * A message that cannot carry the number of its deliveries may have been given back most times, as its group or its inbox was busy. Only
 * the claim shows how often a handler may have started. Before that, a delivery counts as this share: its decoder may be what ends the
 * process.
 */
const shareOfUncounted = 1 / 20;

/** With this room, the counts of a message can be written into its envelope: in base64, too. */
const roomForCounts = 128;

/** How long before the end of its life a message waits no longer. */
const expiryMarginInMs = 2_000;

/** How long a message with so much life may wait in a consumer. Then it has to be moved to the poison queue, while it exists. */
export function maxWaitInMs(lifeInMs: number): number {
  return Math.max(0, lifeInMs / 2, lifeInMs - expiryMarginInMs);
}

/** A message from its receipt until it is settled. */
export class ReceivedMessage<T> {
  readonly message: QueueMessageLike;
  readonly lease: MessageLease;
  /** Started before the receive was sent. */
  readonly clock: Clock;
  /** Started before its claim was sent. */
  claimClock: Clock;
  /** Started when it began to wait until another consumer frees its group. */
  parkedFor: Clock | undefined;
  readonly #queue: QueueLike;
  readonly #settings: ConsumerSettings<T>;
  readonly #receivedOn: Date;
  readonly #receivedAfterInMs: number;
  /** Only this clock cannot be set forward: claims must not seem to be older than they are. */
  readonly #receivedAt = performance.now();
  #envelope: Envelope | undefined;
  /** Sent by another producer, without an envelope: other programs may read it, so it is never rewritten, except for a checkpoint. */
  #foreign = false;
  #key: string | undefined;
  #group: string | undefined;
  #sequence: number | undefined;
  #checkpoint: unknown;
  #payload: T | undefined;
  #partitionKey: string | undefined;
  #payloadHash = "";
  /** The payload as text. Undefined: it is in a blob that was not read, or does not exist. */
  #content: string | undefined;
  #storedPayload: StoredPayload | undefined;
  #payloadMissing = false;
  /** As counted by the inbox, for a message that cannot carry the count itself. */
  #claimFailures: number | undefined;
  #claims: number | undefined;
  /** It was delivered so often that it is not decoded any more: no handler can have it. */
  #givenUp = false;
  /** Whether its text has room for counts. Measured once: it is asked for with each attempt, event and claim. */
  #hasRoom: boolean | undefined;

  /** `clock` was started before the receive was sent; `receivedOn` is the time of the service's response. */
  constructor(queue: QueueLike, message: QueueMessageLike, settings: ConsumerSettings<T>, clock: Clock, receivedOn: Date) {
    this.#queue = queue;
    this.message = message;
    this.#settings = settings;
    this.clock = clock;
    this.claimClock = clock;
    this.#receivedOn = receivedOn;
    this.#receivedAfterInMs = clock();
    this.lease = new MessageLease(queue, {
      messageId: message.messageId,
      popReceipt: message.popReceipt,
      visibilityInSeconds: settings.visibilityTimeoutInSeconds,
      clock,
      expiresInMs: message.expiresOn.getTime() - this.#receivedOn.getTime() + this.#receivedAfterInMs,
    });
  }

  /** Reads the envelope, and the payload if it is in a blob. @throws `Error` if that is not possible. */
  async load(abortSignal: AbortSignal): Promise<void> {
    const text = decodeText(this.message.messageText, this.#settings.encoding);
    const parsed = parseEnvelope(text);
    // In a fleet that is upgraded instance by instance, another instance can have it.
    if (!parsed && isLaterEnvelope(text)) throw new PayloadUnavailableError("A message was sent by a later version of this library: it is given back for a consumer of that version.");
    const envelope = parsed ? withoutForgedBookkeeping(parsed, this.message.messageId) : { asc: 1 as const, text };
    this.#foreign = parsed === undefined;
    this.#envelope = envelope;
    this.#group = checkGroup("the group of the message", envelope.group);
    if (envelope.sequence !== undefined) this.#sequence = checkSequence("the sequence of the message", envelope.sequence);
    this.#checkpoint = envelope.checkpoint;
    if (isReferenceBody(envelope.body)) return this.#loadStored(envelope.body, abortSignal);
    if (envelope.key !== undefined) this.#key = checkKey("the key of the message", envelope.key);
    this.#content = envelope.text ?? JSON.stringify(envelope.body);
    this.#payloadHash = fingerprint(this.#content);
  }

  async #loadStored(body: { readonly ascOverflow: unknown }, abortSignal: AbortSignal): Promise<void> {
    const { overflow, maxDeliveries } = this.#settings;
    const reference = parseReference(body);
    this.#key = reference.key;
    this.#payloadHash = reference.fingerprint;
    // No handler will get the payload, and its size may be what ends the process each time.
    this.#givenUp = this.deliveries > maxDeliveries;
    if (this.poisonPending || this.#givenUp) return;
    if (!overflow) throw new UnusablePayloadError("its payload is in a blob, and the consumer has no option overflow");
    const found = await readPayload(redactUrl(this.#queue.url), overflow, reference, abortSignal);
    this.#content = found?.content;
    this.#storedPayload = found?.stored;
    this.#payloadMissing = found === undefined;
  }

  /** Decodes the payload. @throws `Error` if it cannot be decoded. */
  async open(): Promise<void> {
    const { decode, schema, idempotencyKeyOf, groupOf, commits, maxDeliveries } = this.#settings;
    const content = this.#content;
    if (content === undefined) return;
    // It may be large, and the handler may run for long.
    this.#content = undefined;
    // No handler will get the payload, and its decoder or schema may be what ends the process each time. Its key is still needed, for the
    // inbox: another message may have completed it.
    this.#givenUp = this.deliveries > maxDeliveries && (this.#key !== undefined || !idempotencyKeyOf);
    if (this.#givenUp) return;
    // Parsed anew: a handler may change its payload, and the envelope is written again when the message is released.
    const decoded = decode ? await decode(content, this.#properties()) : (parseContent(content) as T);
    const payload = schema ? await outputOf(schema, decoded, this.#queue.url) : decoded;
    if (groupOf) this.#group = checkGroup("groupOf", observed(groupOf(payload, this.#properties())));
    if (idempotencyKeyOf && this.#key === undefined) this.#key = checkKey("idempotencyKeyOf", observed(idempotencyKeyOf(payload, this.#properties())));
    if (commits) {
      this.#partitionKey = observed(commits.partitionOf(payload, { ...this.#properties(), idempotencyKey: this.key }));
      checkEntityKey("partitionOf", this.#partitionKey);
    }
    this.#payload = payload;
  }

  /** The blob of the payload, as it was read. */
  get storedPayload(): StoredPayload | undefined {
    return this.#storedPayload;
  }

  /** Its payload was in a blob, which does not exist. */
  get payloadMissing(): boolean {
    return this.#payloadMissing;
  }

  get payload(): T {
    return this.#payload as T;
  }

  get key(): string {
    return this.#key ?? this.message.messageId;
  }

  get group(): string | undefined {
    return this.#group;
  }

  /** The position in the group, if the consumer keeps that order. */
  get sequence(): number | undefined {
    return this.#settings.order === "sequence" ? this.#sequence : undefined;
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
    if (this.#hasRoomForCount) return Math.max(dequeueCount - this.#givenBack, 1);
    if (this.#givenUp || !this.#settings.inbox) return dequeueCount;
    return this.#claims === undefined ? Math.ceil(dequeueCount * shareOfUncounted) : Math.min(this.#claims, dequeueCount);
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

  /** As the inbox has counted them, of all messages with the key. One that does not count claims: each delivery may have been one. */
  setClaimCounts({ failures, claims = this.message.dequeueCount }: Pick<InboxClaim, "failures" | "claims">): void {
    this.#claimFailures = failures;
    this.#claims = claims;
  }

  /** How long until the queue deletes it because its time to live is over. */
  get lifeInMs(): number {
    return this.lease.lifeInMs;
  }

  get info(): MessageInfo {
    return { ...this.#properties(), idempotencyKey: this.key, group: this.#group, attempt: this.attempt };
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
      group: this.#group,
      sequence: this.sequence,
      payloadHash: this.#payloadHash,
      // Twice the visibility timeout: the claim is then renewed half as often, and only for long handlers.
      claimDurationInMs: this.#settings.visibilityTimeoutInSeconds * 2_000,
      // A message may have waited here since.
      receivedOn: new Date(this.#receivedOn.getTime() + Math.floor(performance.now() - this.#receivedAt)),
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
    // Of all messages with the key. A redriven message, or another one with the key, has not failed more often than it was delivered before.
    if (!this.#hasRoomForCount) return Math.min(this.#claimFailures ?? before, before);
    const { failures = 0 } = this.#envelope;
    return isCount(failures) ? Math.min(failures, before) : before;
  }

  get #givenBack(): number {
    const given = this.#envelope?.uncharged;
    // More than there were deliveries: another program has written it.
    return isCount(given) && given < this.message.dequeueCount ? given : 0;
  }

  get #hasRoomForCount(): boolean {
    return !this.#foreign && (this.#hasRoom ??= byteLength(this.message.messageText) <= maxMessageBytes - roomForCounts);
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
    const envelope = { ...this.#envelope, checkpoint: this.#checkpoint, ...change, of: this.message.messageId };
    const fits = (text: string): boolean => byteLength(text) <= maxMessageBytes;
    const text = sealEnvelope(envelope, this.#settings.encoding);
    if (fits(text) || envelope.traceparent === undefined) return fits(text) ? text : undefined;
    // What is written matters more than the trace.
    const untraced = sealEnvelope({ ...envelope, traceparent: undefined }, this.#settings.encoding);
    return fits(untraced) ? untraced : undefined;
  }

  #properties(): MessageProperties {
    const { messageId, insertedOn, dequeueCount } = this.message;
    return { messageId, insertedOn, dequeueCount };
  }
}

function checkGroup(name: string, group: unknown): string | undefined {
  return group === undefined ? undefined : checkKey(name, group);
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
