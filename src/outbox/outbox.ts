import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import type { TableLike } from "../clients/table.js";
import { checkDrainTimeout, ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, StopOptions } from "../core/background-service.js";
import { Deadline, RequestTimeoutError, startStopwatch, throwIfAborted } from "../core/deadline.js";
import { errorLabel, logger, withSpan } from "../core/telemetry.js";
import { EventDispatcher } from "../core/typed-events.js";
import type { TypedEvents } from "../core/typed-events.js";
import { checkOptions } from "../core/validate.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { prepareMessage } from "../queue/enqueue.js";
import { checkQueue } from "../queue/options.js";
import { requireClient } from "../target/target.js";
import { TransactionRun } from "../transaction/transaction-run.js";
import type { Transaction } from "../transaction/transaction.js";
import { CommittedSends } from "./committed-sends.js";
import { HeldMarkers } from "./held-markers.js";
import { MessageSender } from "./message-sender.js";
import { OutboxCommit } from "./outbox-commit.js";
import { callOptionNames, messageOptionNames, outboxEventNames, outboxSettings } from "./outbox-options.js";
import type { OutboxEvents, OutboxMessage, OutboxMessageOptions, OutboxOptions, OutboxSettings } from "./outbox-options.js";
import { OutboxTable } from "./outbox-table.js";
import { Relay } from "./relay.js";
import { RelayLoop } from "./relay-loop.js";
import { RelayTurn } from "./relay-turn.js";

/** How long the end of an outbox waits for its last requests. */
const cleanUpTimeoutInMs = 5_000;

/**
 * Messages that are sent if, and only if, a transaction commits. They are stored with the entities, and sent right after the commit by the
 * same process. If that process ends before, a relay sends them, in any process that has started its outbox. A message may be sent twice,
 * with the same idempotency key: with an inbox at the other end, it takes effect exactly once.
 *
 * @example
 * ```ts
 * const outbox = new Outbox(table, { queues: [invoices] });
 * outbox.on("error", (error) => console.error(error));
 * await outbox.start();
 * await runTransaction(table, "eu", (tx) => {
 *   tx.create({ rowKey: "order-17", total: 3 });
 *   outbox.add(tx, invoices, { order: "order-17" });
 * });
 * ```
 */
export class Outbox implements BackgroundService, TypedEvents<OutboxEvents> {
  readonly #table: OutboxTable;
  readonly #settings: OutboxSettings;
  readonly #events: EventDispatcher<OutboxEvents>;
  readonly #service: ServiceRunner;
  readonly #markers: HeldMarkers;
  readonly #sends: CommittedSends;
  readonly #relay: Relay;
  readonly #commits = new WeakMap<TransactionRun, OutboxCommit>();
  /** Part of the keys of messages: the same for all runs of the function of one call. */
  readonly #callIds = new WeakMap<object, string>();

  /**
   * Sends no request: {@link Outbox.add} can be used at once, and the relay runs from {@link Outbox.start} on, in every instance.
   * @param table - The table of the entities.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(table: TableLike, options: OutboxOptions);
  /**
   * The same, for many instances: one of those that have started relays at a time. Costs fewer requests; the guarantees are the same.
   * @param table - The table of the entities.
   * @param locks - Stores the lock of the relaying instance.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(table: TableLike, locks: BlobLocks, options: OutboxOptions);
  constructor(table: TableLike, ...given: readonly [OutboxOptions] | readonly [BlobLocks, OutboxOptions]) {
    requireClient("Outbox", table, "a TableClient", ["submitTransaction", "listEntities"]);
    const { locks, options } = checkGiven(given);
    this.#settings = outboxSettings(options);
    const { queues, relayAfterInMs, pollIntervalInMs, drainTimeoutInMs } = this.#settings;
    this.#table = new OutboxTable(table);
    const component = `Outbox ${table.tableName}`;
    this.#events = new EventDispatcher(component, outboxEventNames);
    const onError = (error: unknown): void => {
      logger.warning(`${component}: ${errorLabel(error)}`);
      this.#events.emit("error", error);
    };
    const sender = new MessageSender(queues, { sent: (detail) => this.#events.emit("sent", detail), error: onError });
    this.#markers = new HeldMarkers(this.#table, relayAfterInMs);
    this.#sends = new CommittedSends(this.#table, sender, onError);
    const relay = new Relay(this.#table, sender, relayAfterInMs, onError);
    this.#relay = relay;
    const lockName = relayLockName(this.#table.url);
    this.#service = new ServiceRunner({
      name: component,
      drainTimeoutInMs,
      prepare: (request) =>
        withSpan("Outbox.start", request, async (tracingOptions = {}) => {
          await Promise.all([this.#table.checkExists({ ...request, tracingOptions }), locks?.inspect(lockName, { ...request, tracingOptions })]);
        }, this.#spanDetails),
      launch: () => new RelayLoop({ relay, turn: new RelayTurn(locks, lockName, onError), pollIntervalInMs, onError }),
    });
  }

  /** Whether its relay has started, and `stop` has not been called since. */
  get isRunning(): boolean {
    return this.#service.isRunning;
  }

  /**
   * Adds a message to a transaction of the outbox's table, in the function of {@link runTransaction} or {@link Once.runTransaction}. It is
   * sent if the transaction commits, and only then: not if the function throws, or what it did was dropped. Costs, besides 1 request for each
   * message: 1 to delete the row, and 1 for each partition in each 15 seconds (half of `relayAfterInMs`), both shared by transactions that
   * run at the same time.
   *
   * @param queue - Need not be among the `queues` of the options: this process sends to it, but its relay cannot.
   * @param payload - Sent as JSON, as it is now.
   * @throws `TypeError` if `tx` is not a running transaction of the same table, or the payload cannot be written as JSON.
   * @throws `RangeError` if the message is larger than 64 KiB and has no `overflow`, or all messages of the transaction together have more than
   * 450,000 characters.
   */
  add(tx: Transaction, queue: QueueLike, payload: unknown, options: OutboxMessageOptions = {}): void {
    checkOptions("Outbox.add", options, messageOptionNames);
    checkQueue("Outbox.add", queue);
    if (!(tx instanceof TransactionRun)) throw new TypeError("Outbox.add: tx must be the argument of the function of runTransaction or Once.runTransaction. In a handler of a QueueConsumer, call tx.send.");
    if (!this.#table.isSame(tx.table)) throw new TypeError(`Outbox.add: the transaction is in another table than the outbox, which is in ${this.#table.url}. One transaction cannot write to both.`);
    tx.checkRunning();
    const commit = this.#commits.get(tx);
    const idempotencyKey = options.idempotencyKey ?? `${this.#callIdOf(tx)}/${commit?.count ?? 0}`;
    const message = prepareMessage("Outbox.add", payload, { ...options, idempotencyKey });
    (commit ?? this.#attach(tx)).add(queue, message);
    this.#settings.queues.add(queue);
  }

  /**
   * Checks that the table exists, and starts the relay: it sends what ended processes left, and what could not be sent. Run it in at least
   * one process, better in several. Costs 1 request in each `pollIntervalInMs`, and 3 and more for each partition in which an ended process left
   * something. With locks, only the instance that relays sends these, and 1 every 10 seconds to renew its lock; each other one sends 1 a minute.
   * @throws {@link TargetNotFoundError} if the table, or the container of the locks, does not exist.
   * @throws {@link OperationTimeoutError} if the service does not respond within 30 seconds.
   */
  start(options?: CallOptions): Promise<void> {
    return this.#service.start(options);
  }

  /**
   * Stops the relay, waits for the messages that are being sent up to `drainTimeoutInMs`, and deletes what is not needed any more. What is
   * not sent by then is left to the relay of another process. {@link Outbox.add} can still be used afterwards.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  async stop(options: StopOptions = {}): Promise<void> {
    const elapsedInMs = startStopwatch();
    await this.#service.stop(options);
    const drainTimeoutInMs = checkDrainTimeout(options.drainTimeoutInMs ?? this.#settings.drainTimeoutInMs);
    await this.#end(Math.max(0, drainTimeoutInMs - elapsedInMs()));
  }

  /**
   * Starts, runs until the signal aborts or `stop` is called, and stops. Rejects only if it could not start.
   * @throws {@link TargetNotFoundError} if the table, or the container of the locks, does not exist.
   */
  async run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    try {
      await this.#service.run(options);
    } finally {
      await this.#end(this.#settings.drainTimeoutInMs);
    }
  }

  /**
   * Waits until what this process has committed is sent, and then lets the relay look once for what ended processes left: for processes that
   * do not run it in the background. Returns how many messages were sent, and how many could not be sent and are left.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws `RestError` if the table rejects a request.
   */
  async flush(options: CallOptions = {}): Promise<{ readonly sent: number; readonly failed: number }> {
    checkOptions("Outbox.flush", options, callOptionNames);
    return withSpan("Outbox.flush", options, async (tracingOptions) => {
      const { abortSignal } = options;
      throwIfAborted(abortSignal);
      const own = await this.#sends.settled(abortSignal);
      const { sent, failed } = await this.#relay.pass({ abortSignal, tracingOptions });
      throwIfAborted(abortSignal);
      return { sent: own.sent + sent, failed: own.failed + failed };
    }, this.#spanDetails);
  }

  /**
   * The messages that are committed and not sent yet, of all processes. Costs 1 request, and 1 for each partition with a transaction in the
   * last minute, or with messages.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws `RestError` if the table rejects a request.
   */
  list(options: CallOptions = {}): AsyncIterableIterator<OutboxMessage> {
    checkOptions("Outbox.list", options, callOptionNames);
    return this.#list(options);
  }

  async *#list(options: CallOptions): AsyncGenerator<OutboxMessage, undefined> {
    for await (const { messages, addedOn } of this.#relay.list(options)) {
      for (const { queue, key: idempotencyKey } of messages) yield { queue, idempotencyKey, addedOn: new Date(addedOn ?? NaN) };
    }
    return undefined;
  }

  /** Adds a listener. A listener that throws has no effect on the outbox. */
  on<K extends keyof OutboxEvents>(event: K, listener: (detail: OutboxEvents[K]) => void): this {
    this.#events.add(event, listener);
    return this;
  }

  /** Adds a listener for the next event only. */
  once<K extends keyof OutboxEvents>(event: K, listener: (detail: OutboxEvents[K]) => void): this {
    this.#events.add(event, listener, true);
    return this;
  }

  /** Removes a listener. */
  off<K extends keyof OutboxEvents>(event: K, listener: (detail: OutboxEvents[K]) => void): this {
    this.#events.remove(event, listener);
    return this;
  }

  /** Stops, as {@link Outbox.stop} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  get #spanDetails(): { readonly targetKind: string; readonly url: string } {
    return { targetKind: "outbox", url: this.#table.url };
  }

  /** The first message of a run: its row is made when the function has returned. The marker is stored meanwhile. */
  #attach(tx: TransactionRun): OutboxCommit {
    const marker = this.#markers.of(tx.partitionKey);
    const commit = new OutboxCommit(this.#markers, marker, this.#sends);
    tx.attach(commit);
    this.#commits.set(tx, commit);
    // As long as the call is not settled, it may send a commit.
    const release = marker.use();
    tx.call.promise.then(release, release);
    this.#markers.store(marker, tx.signal).catch(() => undefined);
    return commit;
  }

  #callIdOf({ call }: TransactionRun): string {
    let id = this.#callIds.get(call);
    if (id === undefined) this.#callIds.set(call, (id = crypto.randomUUID()));
    return id;
  }

  async #end(drainTimeoutInMs: number): Promise<void> {
    await this.#sends.drain(drainTimeoutInMs);
    const limit = new Deadline(cleanUpTimeoutInMs, () => new RequestTimeoutError(cleanUpTimeoutInMs));
    // A failure is harmless: the relay deletes them later.
    await limit.race(this.#markers.deleteUnused(0, { abortSignal: limit.signal })).catch(() => undefined);
    limit.dispose();
  }
}

/** @throws `TypeError` if the arguments after the table are neither options, nor locks and options. */
function checkGiven(given: readonly unknown[]): { readonly locks: BlobLocks | undefined; readonly options: OutboxOptions } {
  const isLocks = (value: unknown): boolean => typeof (value as Partial<BlobLocks> | null | undefined)?.tryAcquireFor === "function";
  const [first, second] = given;
  // Missing locks are a mistake of the caller: every instance would relay, where one was wanted.
  if (given.length > 1 && !isLocks(first)) throw new TypeError("Outbox: the second of three arguments must be BlobLocks. Without locks, pass the table and the options.");
  const [locks, options = {}] = isLocks(first) ? [first as BlobLocks, second] : [undefined, first];
  return { locks, options: options as OutboxOptions };
}

/** The same in all processes. The service does not tell names of tables apart by their case. */
function relayLockName(tableUrl: string): string {
  return `outbox/${tableUrl.replace(/^https?:\/\//, "").toLowerCase()}`;
}
