/** What the server of the dashboard sends to its page, as JSON. Times are ISO 8601; everything in it may have been written by anybody. */
export interface Snapshot {
  readonly account: string;
  readonly takenOn: string;
  readonly intervalInMs: number;
  /** Whether the server accepts actions. */
  readonly allowsActions: boolean;
  readonly cost: Cost;
  readonly containers: readonly Source<ContainerView>[];
  readonly schedules: readonly Source<ScheduleView>[];
  readonly queues: readonly Source<QueueView>[];
  readonly tables: readonly Source<TableView>[];
}

/** What the dashboard costs, in requests to the storage account. */
export interface Cost {
  /** While the page is open: the requests of the last poll of each source, at the rate at which it is polled. */
  readonly requestsPerMinute: number;
  /** Since the start. */
  readonly requests: number;
}

/** A container, queue or table, or the schedule of a table. */
export interface Source<T> {
  readonly name: string;
  /** As it was found last. Undefined: nothing was found yet. */
  readonly value?: T | undefined;
  /** When that was. */
  readonly takenOn?: string | undefined;
  /** Why the last poll has failed. */
  readonly error?: string | undefined;
}

export interface ContainerView {
  /** Held locks come first. Without those of the other lists, except for elections: each of them is a lock. */
  readonly locks: readonly LockView[];
  /** Of how many. */
  readonly lockCount: number;
  readonly heldCount: number;
  /** The listing was not read to its end. */
  readonly isPartial: boolean;
  readonly elections: readonly ElectionView[];
  readonly slots: readonly SlotsView[];
  readonly readerWriterLocks: readonly ReaderWriterView[];
}

export interface LockView {
  readonly name: string;
  /** For people: of the lock of a table, what it locks. */
  readonly label: string;
  readonly state: "available" | "leased" | "expired" | "breaking" | "broken";
  readonly isHeld: boolean;
  readonly epoch: number | undefined;
  /** Of the holder, or of the last one if it is not held. */
  readonly holder: string | undefined;
  readonly since: string | undefined;
  readonly data: string | undefined;
  readonly isFair: boolean;
}

export interface ElectionView {
  readonly name: string;
  /** Undefined: there was never one. */
  readonly lock: LockView | undefined;
}

/** A semaphore; or a work balancer, whose shards are its slots. */
export interface SlotsView {
  readonly kind: "semaphore" | "balancer";
  readonly name: string;
  readonly slots: number;
  readonly held: readonly { readonly slot: number; readonly lock: LockView }[];
}

export interface ReaderWriterView {
  readonly name: string;
  readonly writer: LockView | undefined;
  readonly readers: readonly LockView[];
}

export interface ScheduleView {
  readonly table: string;
  readonly schedule: string;
  readonly jobs: readonly JobView[];
}

export interface JobView {
  readonly name: string;
  readonly trigger: string | undefined;
  readonly state: string;
  readonly nextDueOn: string | undefined;
  /** The newest one first. */
  readonly runs: readonly RunView[];
}

export interface RunView {
  readonly dueOn: string;
  readonly state: "pending" | "running" | "succeeded" | "failed" | "skipped";
  readonly startedOn: string | undefined;
  readonly durationInMs: number | undefined;
  readonly error: string | undefined;
  readonly holder: string | undefined;
  readonly attempt: number;
}

export interface QueueView {
  readonly messages: number;
  /** Received and not completed, or delayed. Undefined: not known. */
  readonly hidden: number | undefined;
  readonly oldestInsertedOn: string | undefined;
  /** Undefined: there is no poison queue. */
  readonly poison: number | undefined;
  /** Up to 32 of them, without their payloads. */
  readonly poisonMessages: readonly PoisonView[];
  /** The oldest one first. */
  readonly history: readonly QueuePoint[];
}

export interface QueuePoint {
  readonly at: string;
  readonly messages: number;
  /** Of the oldest visible message. */
  readonly ageInMs: number;
}

export interface PoisonView {
  readonly id: string;
  /** Identifies the text of the message: an action on another text is refused. */
  readonly version: string;
  readonly poisonedOn: string;
  readonly attempts: number | undefined;
  readonly reason: string | undefined;
  readonly error: string | undefined;
  readonly key: string | undefined;
}

export interface TableView {
  readonly inbox: { readonly claimed: number; readonly released: number; readonly completed: number; readonly isLowerBound: boolean };
  readonly outbox: { readonly messages: number; readonly oldestOn: string | undefined; readonly isLowerBound: boolean };
}

/** What the page asks the server to do, after the user has confirmed it. Each names the version that was shown. */
export type Action =
  | { readonly kind: "break"; readonly container: string; readonly name: string; readonly epoch: number | undefined; readonly etag: string }
  | { readonly kind: "redrive" | "delete"; readonly queue: string; readonly id: string; readonly version: string }
  /** The key makes a second send the same run. */
  | { readonly kind: "trigger"; readonly table: string; readonly schedule: string; readonly job: string; readonly trigger: string; readonly key: string };

/** A lock as it is at the moment when the user is asked. */
export interface InspectedLock extends LockView {
  readonly etag: string | undefined;
}
