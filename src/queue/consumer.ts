import { EventEmitter } from "eventemitter3";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { onAbort } from "../core/deadline.js";
import { isParentNotFound } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl, withSpan } from "../core/telemetry.js";
import { createError, TargetNotFoundError } from "../errors.js";
import type { Emit, MessageHandler, QueueConsumerEvents } from "./context.js";
import { consumerSettings } from "./options.js";
import type { ConsumerSettings, QueueConsumerOptions } from "./options.js";
import { PollingLoop } from "./polling-loop.js";

/** The health of a consumer. */
export interface QueueConsumerHealth {
  readonly running: boolean;
  /** Messages that are being processed. */
  readonly inFlight: number;
  readonly lastPollOn: Date | undefined;
  /** When a message was last completed, or recognised as a duplicate. */
  readonly lastSuccessOn: Date | undefined;
  /** How often the queue or the inbox has failed in a row. */
  readonly consecutiveErrors: number;
}

/**
 * Receives messages, keeps them hidden while a handler processes them, and deletes them when it is done. A queue delivers at
 * least once; with an inbox, duplicates are recognised.
 *
 * Each message costs a share of a receive and one delete, and an update for each half of the visibility timeout that its handler
 * takes.
 */
export class QueueConsumer<T = unknown> extends EventEmitter<QueueConsumerEvents> implements AsyncDisposable {
  readonly #queue: QueueLike;
  readonly #handler: MessageHandler<T>;
  readonly #settings: ConsumerSettings<T>;
  #starting: Promise<void> | undefined;
  #loop: PollingLoop<T> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(queue: QueueLike, handler: MessageHandler<T>, options: QueueConsumerOptions<T> = {}) {
    super();
    if (typeof handler !== "function") throw new TypeError("the handler must be a function");
    this.#queue = queue;
    this.#handler = handler;
    this.#settings = consumerSettings(options);
  }

  /**
   * Checks that the queue exists, creates the poison queue and (if requested) the inbox table if they do not exist, and starts to
   * poll. Does nothing if it is running.
   * @throws TargetNotFoundError if the queue does not exist
   */
  async start(options: CallOptions = {}): Promise<void> {
    if (this.#stopping) await this.#stopping;
    this.#starting ??= this.#start(options);
    try {
      await this.#starting;
    } catch (error) {
      this.#starting = undefined;
      throw error;
    }
  }

  /**
   * Stops polling; waits for the handlers up to `drainTimeoutInMs`, renewing their messages; then aborts their signals and
   * releases their messages to the queue. Afterwards no timer and no request is left.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop().finally(() => {
      this.#starting = undefined;
      this.#loop = undefined;
      this.#stopping = undefined;
    });
    return this.#stopping;
  }

  /** Starts, runs until the signal aborts, and stops. Rejects only if it could not start. */
  async run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    const { abortSignal } = options;
    if (!abortSignal.aborted) {
      await this.start(options.tracingOptions ? { tracingOptions: options.tracingOptions } : {});
      await new Promise<void>((resolve) => onAbort(abortSignal, resolve));
    }
    await this.stop();
  }

  /** Ends the wait for the next poll. To be called when it is known that the queue has a message. */
  notify(): void {
    this.#loop?.notify();
  }

  health(): QueueConsumerHealth {
    const idle = { inFlight: 0, lastPollOn: undefined, lastSuccessOn: undefined, consecutiveErrors: 0 };
    return { running: this.#loop !== undefined && this.#stopping === undefined, ...(this.#loop?.health ?? idle) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #start(options: CallOptions): Promise<void> {
    const { poisonQueue, inbox } = this.#settings;
    await withSpan("QueueConsumer.start", options, async (tracingOptions) => {
      const call = {
        ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }),
        ...(tracingOptions && { tracingOptions }),
      };
      try {
        await this.#queue.getProperties(call);
      } catch (error) {
        if (!isParentNotFound(error)) throw error;
        const url = redactUrl(this.#queue.url);
        throw createError(TargetNotFoundError, `the queue ${url} does not exist; create it, or check its name`, { url, cause: error });
      }
      await poisonQueue?.createIfNotExists(call);
      await inbox?.prepare({ abortSignal: options.abortSignal, tracingOptions });
    }, { targetKind: "queue", url: this.#queue.url });
    // Outside of the span: the messages that will be processed are not part of the start.
    this.#loop = new PollingLoop(this.#queue, this.#handler, this.#settings, this.#emit);
  }

  async #stop(): Promise<void> {
    // If the start failed, there is nothing to stop.
    await this.#starting?.catch(() => undefined);
    await this.#loop?.stop();
  }

  /** A listener that throws must not end the loop. */
  readonly #emit: Emit = (event, ...args) => {
    logEvent(this.#queue.name, event, args[0]);
    try {
      (this.emit as (event: string, ...args: unknown[]) => boolean).call(this, event, ...args);
    } catch (error) {
      logger.warning(`a listener of "${event}" threw: ${errorLabel(error)}`);
    }
  };
}

/** A failure that is not retried is a warning; one that is retried is not. Of a message only the id is logged. */
function logEvent(queue: string, event: keyof QueueConsumerEvents, detail: unknown): void {
  if (event === "error") logger.warning(`queue ${queue}: ${errorLabel(detail)}`);
  if (event !== "lost" && event !== "poisoned" && event !== "retry") return;
  const { messageId, error } = detail as { messageId: string; error?: unknown };
  const message = `message ${messageId} of queue ${queue}: ${event}${error === undefined ? "" : ` after ${errorLabel(error)}`}`;
  if (event === "retry") logger.verbose(message);
  else logger.warning(message);
}
