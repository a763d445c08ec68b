/** Which message an event is about. */
export interface MessageInfo {
  readonly messageId: string;
  readonly key: string;
  readonly attempt: number;
  readonly insertedOn: Date;
}

/** The events of a `QueueConsumer`, with what their listeners get. */
export interface QueueConsumerEvents {
  /** A message has arrived. */
  received: (message: MessageInfo) => void;
  /** Its handler has finished, and it is off the queue. */
  completed: (message: MessageInfo & { readonly durationInMs: number }) => void;
  /** The inbox knows its key to be done. */
  duplicate: (message: MessageInfo) => void;
  /** Its handler failed or asked for it: it is delivered again after the delay. */
  retry: (message: MessageInfo & { readonly delayInMs: number; readonly error: unknown }) => void;
  /** It was put aside. */
  poisoned: (message: MessageInfo & { readonly reason: string; readonly error: unknown }) => void;
  /** It is no longer ours; somebody will get it again. */
  lost: (message: MessageInfo & { readonly error: unknown }) => void;
  /** Something went wrong that is tried again: the queue or the inbox cannot be reached, or an event listener threw. */
  error: (error: unknown) => void;
  /** The queue had nothing. */
  empty: (poll: { readonly nextPollInMs: number }) => void;
  /** `stop()` is through. */
  stopped: () => void;
}

/** Tells the listeners. */
export type Emit = <E extends keyof QueueConsumerEvents>(event: E, ...args: Parameters<QueueConsumerEvents[E]>) => void;
