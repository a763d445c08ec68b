import type { CallOptions } from "../clients/call.js";
import { withAttempts } from "./telemetry.js";
import type { AttemptObserver, Attempts, CallSpan, SpanDetails } from "./telemetry.js";

/**
 * What is measured. Implemented by core/metrics.ts, which an application loads with `useMetrics` only: others, in a browser for example, have
 * these calls, and not the instruments. None of its functions throws. A `kind` that is undefined is not counted.
 */
export interface Recorder {
  /** For a call that writes. */
  updateObserver(options: CallOptions): AttemptObserver;
  /** A write is sent with the changes of so many calls. */
  countBatch(size: number, trace: Attempts): void;
  /** Counts a holder from now on. Returns what ends that; with a reason, it has lost the lease. */
  countHolder(kind: string | undefined): ((lostBecause?: string) => void) | undefined;
  /** Measures how long a caller waits, who gets `undefined` if another holder has what it wants. */
  measureWait(waiting: Promise<unknown>, kind: string | undefined, options: CallOptions): void;
  /** The next caller of this process has the lease, without a request. */
  countHandOver(kind: string | undefined): void;
  /** A term of a leader, or of the owner of a shard, has ended. */
  countTerm(kind: string, durationInMs: number, outcome: string): void;
  /** An event of a consumer. */
  countDelivery(queue: string, event: string): void;
  countReceived(queue: string, ageInMs: number): void;
  /** A handler has ended, or was abandoned. */
  countHandler(queue: string, durationInMs: number, failed: { readonly error: unknown } | undefined): void;
  /** A run of a job has started or ended, or is skipped. */
  countRun(schedule: string, run: MeasuredRun): void;
}

/** A run of a job, as the events of a schedule have it. */
export interface MeasuredRun {
  readonly job: string;
  readonly state: string;
  readonly dueOn: Date;
  readonly startedOn: Date | undefined;
  readonly durationInMs: number | undefined;
}

/** Undefined, unless the application has called `useMetrics`. */
export let recorder: Recorder | undefined;

/** For core/metrics.ts. */
export function setRecorder(next: Recorder | undefined): void {
  recorder = next;
}

/** As `withAttempts`, for a call that writes. */
export function withUpdate<R>(name: string, options: CallOptions, fn: (attempts: Attempts, span: CallSpan) => Promise<R>, details?: SpanDetails): Promise<R> {
  return withAttempts(name, options, fn, details, recorder?.updateObserver(options));
}

/** An election in which this process takes part. */
export interface ObservedElection {
  readonly name: string;
  readonly isLeader: boolean;
}

/** A consumer that runs. */
export interface ObservedConsumer {
  /** Of its queue. */
  readonly name: string;
  /** How many messages it processes. */
  readonly inFlight: number;
  /** How many messages the queue has; undefined if that is not known. Never rejects. */
  readonly queueLength: () => Promise<number | undefined>;
}

/** The components whose state is read when metrics are collected. They are here while they run, with or without metrics. */
export const observed: { readonly elections: Set<ObservedElection>; readonly consumers: Set<ObservedConsumer> } = { elections: new Set(), consumers: new Set() };
