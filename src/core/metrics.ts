import type { CallOptions } from "../clients/call.js";
import type { HistogramLike, MeterLike, MeterProviderLike, MetricAttributesLike, ObservableResultLike } from "../clients/metrics.js";
import { isConcurrencyError } from "../errors.js";
import { isAborted, startStopwatch } from "./deadline.js";
import { observed, setRecorder } from "./measure.js";
import type { MeasuredRun, Recorder } from "./measure.js";
import { errorType, guard, spanAttributes } from "./telemetry.js";
import type { AttemptObserver, Attempts } from "./telemetry.js";

const namespace = "azure_storage_concurrency";

/** The attributes of the measurements; those that spans have as well have the same names. No value names a blob, a key or a message. */
const attribute = {
  kind: spanAttributes.targetKind,
  outcome: spanAttributes.outcome,
  errorType: spanAttributes.errorType,
  /** The public call. */
  call: "azsc.call",
  /** Why a lease was lost. */
  reason: "azsc.reason",
  /** The name of an election, or `schedule/job`: each of them is an object that runs in this process. */
  name: "azsc.name",
  system: "messaging.system",
  operation: "messaging.operation.name",
  queue: "messaging.destination.name",
};

let current: MeterLike | undefined;

/**
 * Records the metrics of the library from now on, with the meters of this provider: of a `MeterProvider` of OpenTelemetry, or of `metrics`
 * of `@opentelemetry/api` once the application has registered a provider. The library itself imports neither. Replaces the provider of an
 * earlier call. `undefined`: records nothing any more, as before the first call.
 * @example
 * ```ts
 * import { MeterProvider } from "@opentelemetry/sdk-metrics";
 *
 * useMetrics(new MeterProvider({ readers: [reader] }));
 * ```
 * @throws `TypeError` if it has no `getMeter`.
 */
export function useMetrics(provider: MeterProviderLike | undefined): void {
  if (provider !== undefined && typeof (provider as Partial<MeterProviderLike> | null)?.getMeter !== "function") {
    throw new TypeError("useMetrics needs a MeterProvider, or the metrics API of @opentelemetry/api");
  }
  const meter = provider?.getMeter("azure-storage-concurrency");
  const next = meter && new MeterRecorder(meter);
  if (meter && meter !== current) createGauges(meter);
  current = meter;
  setRecorder(next);
}

/** Bounds of buckets in seconds, as the conventions have them for requests, and on to an hour for waits. */
const requestSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const longSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600];
const sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

function seconds(meter: MeterLike, name: string, description: string, bounds: readonly number[] = longSeconds): HistogramLike {
  return meter.createHistogram(name, { description, unit: "s", advice: { explicitBucketBoundaries: [...bounds] } });
}

function createInstruments(meter: MeterLike) {
  return {
    update: {
      duration: seconds(meter, `${namespace}.update.duration`, "Duration of updates, with all their attempts."),
      attempts: meter.createCounter(`${namespace}.update.attempts`, { description: "Attempts of updates, by their outcome.", unit: "{attempt}" }),
      batchSize: meter.createHistogram(`${namespace}.update.batch_size`, {
        description: "Updates of this process that one write carries.",
        unit: "{update}",
        advice: { explicitBucketBoundaries: sizes },
      }),
    },
    lease: {
      held: meter.createUpDownCounter(`${namespace}.lease.held`, { description: "Leases and locks that are held.", unit: "{lease}" }),
      lost: meter.createCounter(`${namespace}.lease.lost`, { description: "Leases and locks that their holders have lost.", unit: "{lease}" }),
      handOvers: meter.createCounter(`${namespace}.lease.handovers`, { description: "Hand-overs within the process, without a request.", unit: "{handover}" }),
      waitTime: seconds(meter, `${namespace}.lease.wait_time`, "Time until a caller had the lease, or gave up."),
      holdTime: seconds(meter, `${namespace}.lease.hold_time`, "Time for which a caller had the lease."),
    },
    termDuration: seconds(meter, `${namespace}.term.duration`, "Duration of terms: of leaders, and of owners of shards."),
    queue: {
      consumed: meter.createCounter("messaging.client.consumed.messages", { description: "Messages that were received, redeliveries included.", unit: "{message}" }),
      process: seconds(meter, "messaging.process.duration", "Duration of handlers.", requestSeconds),
      outcomes: meter.createCounter(`${namespace}.queue.messages`, { description: "Messages by what became of a delivery.", unit: "{message}" }),
      age: seconds(meter, `${namespace}.queue.message_age`, "Time since a message was sent, when it is received."),
    },
    schedule: {
      runs: meter.createCounter(`${namespace}.schedule.runs`, { description: "Runs of jobs, by how they ended.", unit: "{run}" }),
      duration: seconds(meter, `${namespace}.schedule.run_duration`, "Duration of the runs of jobs."),
      delay: seconds(meter, `${namespace}.schedule.start_delay`, "How late runs start: the time since they were due."),
    },
  };
}

type Instruments = ReturnType<typeof createInstruments>;

class MeterRecorder implements Recorder {
  readonly #instruments: Instruments;

  constructor(meter: MeterLike) {
    this.#instruments = createInstruments(meter);
  }

  updateObserver(options: CallOptions): AttemptObserver {
    return new UpdateObserver(this.#instruments.update, options);
  }

  countBatch(size: number, { name }: Attempts): void {
    guard(() => this.#instruments.update.batchSize.record(size, { [attribute.call]: name }));
  }

  countHolder(kind: string | undefined): ((lostBecause?: string) => void) | undefined {
    if (kind === undefined) return undefined;
    const { held, holdTime, lost } = this.#instruments.lease;
    const heldForInMs = startStopwatch();
    const attributes = { [attribute.kind]: kind };
    let ended = false;
    guard(() => held.add(1, attributes));
    return (reason) => {
      if (ended) return;
      ended = true;
      guard(() => {
        held.add(-1, attributes);
        holdTime.record(heldForInMs() / 1_000, attributes);
        if (reason !== undefined) lost.add(1, { ...attributes, [attribute.reason]: reason });
      });
    };
  }

  measureWait(waiting: Promise<unknown>, kind: string | undefined, { abortSignal }: CallOptions): void {
    if (kind === undefined) return;
    const waitedInMs = startStopwatch();
    const record = (outcome: string): void => {
      guard(() => this.#instruments.lease.waitTime.record(waitedInMs() / 1_000, { [attribute.kind]: kind, [attribute.outcome]: outcome }));
    };
    waiting.then(
      (granted) => record(granted === undefined ? "taken" : "acquired"),
      (error: unknown) => record(isAborted(abortSignal) ? "aborted" : isConcurrencyError(error, "LEASE_UNAVAILABLE") ? "taken" : "failed"),
    );
  }

  countHandOver(kind: string | undefined): void {
    if (kind !== undefined) guard(() => this.#instruments.lease.handOvers.add(1, { [attribute.kind]: kind }));
  }

  countTerm(kind: string, durationInMs: number, outcome: string): void {
    guard(() => this.#instruments.termDuration.record(durationInMs / 1_000, { [attribute.kind]: kind, [attribute.outcome]: outcome }));
  }

  countDelivery(queue: string, event: string): void {
    if (deliveryOutcomes.has(event)) guard(() => this.#instruments.queue.outcomes.add(1, { ...ofQueue(queue), [attribute.outcome]: event }));
  }

  countReceived(queue: string, ageInMs: number): void {
    const { consumed, age } = this.#instruments.queue;
    guard(() => {
      consumed.add(1, { ...ofQueue(queue), [attribute.operation]: "receive" });
      age.record(ageInMs / 1_000, ofQueue(queue));
    });
  }

  countHandler(queue: string, durationInMs: number, failed: { readonly error: unknown } | undefined): void {
    const attributes: MetricAttributesLike = { ...ofQueue(queue), [attribute.operation]: "process" };
    if (failed) attributes[attribute.errorType] = boundedErrorType(failed.error);
    guard(() => this.#instruments.queue.process.record(durationInMs / 1_000, attributes));
  }

  countRun(schedule: string, { job, state, dueOn, startedOn, durationInMs }: MeasuredRun): void {
    const { runs, duration, delay } = this.#instruments.schedule;
    const attributes = { [attribute.name]: `${schedule}/${job}` };
    guard(() => {
      if (state === "running") {
        if (startedOn) delay.record(Math.max(0, startedOn.getTime() - dueOn.getTime()) / 1_000, attributes);
        return;
      }
      const ended = { ...attributes, [attribute.outcome]: state };
      runs.add(1, ended);
      if (durationInMs !== undefined) duration.record(durationInMs / 1_000, ended);
    });
  }
}

/** What becomes of a delivery. Other events do not say that. */
const deliveryOutcomes: ReadonlySet<string> = new Set(["completed", "duplicate", "retried", "poisoned", "lost", "abandoned"]);

function ofQueue(name: string): MetricAttributesLike {
  return { [attribute.system]: "azure_queue_storage", [attribute.queue]: name };
}

class UpdateObserver implements AttemptObserver {
  readonly #instruments: Instruments["update"];
  readonly #options: CallOptions;
  readonly #started = performance.now();
  #outcome = "done";

  constructor(instruments: Instruments["update"], options: CallOptions) {
    this.#instruments = instruments;
    this.#options = options;
  }

  attemptEnded(attempts: Attempts, outcome: string, error: unknown): void {
    this.#outcome = outcome;
    guard(() => this.#instruments.attempts.add(1, updateAttributes(attempts, error === undefined ? outcome : attemptOutcome(outcome, error))));
  }

  callEnded(attempts: Attempts, failed: { readonly error: unknown } | undefined): void {
    guard(() => {
      const attributes = updateAttributes(attempts, !failed ? this.#outcome : isAborted(this.#options.abortSignal) ? "aborted" : "failed");
      if (failed) attributes[attribute.errorType] = boundedErrorType(failed.error);
      this.#instruments.duration.record((performance.now() - this.#started) / 1_000, attributes);
    });
  }
}

function updateAttributes({ name, targetKind: kind }: Attempts, outcome: string): MetricAttributesLike {
  // Of a call with wrong arguments it is not known.
  if (kind === undefined) return { [attribute.call]: name, [attribute.outcome]: outcome };
  return { [attribute.call]: name, [attribute.kind]: kind, [attribute.outcome]: outcome };
}

/** The last attempt of a call that gives up fails with the error of the call. */
function attemptOutcome(outcome: string, error: unknown): string {
  if (isConcurrencyError(error, "CONFLICT")) return "conflict";
  return isConcurrencyError(error, "COMMIT_UNKNOWN") ? "unknown" : outcome;
}

/** The type of an error, if it is one of a known set: an application may give its errors any name. */
function boundedErrorType(error: unknown): string {
  const name = errorType(error);
  return isConcurrencyError(error) || knownErrors.has(name) ? name : "_OTHER";
}

const knownErrors: ReadonlySet<string> = new Set(["AbortError", "Error", "RangeError", "RestError", "TimeoutError", "TypeError"]);

/** Their values are those of the components that run when they are collected, whether these or the meter came first. */
function createGauges(meter: MeterLike): void {
  gauge(meter, `${namespace}.election.leader`, "{leader}", "1 if this process is the leader of the election, 0 if it takes part only.", (result) => {
    for (const [name, all] of byName(observed.elections)) result.observe(all.some(({ isLeader }) => isLeader) ? 1 : 0, { [attribute.name]: name });
  });
  gauge(meter, `${namespace}.queue.in_flight`, "{message}", "Messages that this process handles now.", (result) => {
    for (const [name, all] of byName(observed.consumers)) result.observe(all.reduce((sum, { inFlight }) => sum + inFlight, 0), ofQueue(name));
  });
  gauge(meter, `${namespace}.queue.length`, "{message}", "Messages in the queue, hidden ones included, as the service estimates it.", async (result) => {
    await Promise.all(
      [...byName(observed.consumers)].map(async ([name, [first]]) => {
        const length = await first?.queueLength();
        if (length !== undefined) result.observe(length, ofQueue(name));
      }),
    );
  });
}

function gauge(meter: MeterLike, name: string, unit: string, description: string, observe: (result: ObservableResultLike) => void | Promise<void>): void {
  // A meter that was replaced may still be collected.
  meter.createObservableGauge(name, { unit, description }).addCallback((result) => (meter === current ? observe(result) : undefined));
}

/** Components of the same name have one value: with two of them, a reader would keep the last one only. */
function byName<C extends { readonly name: string }>(components: ReadonlySet<C>): Map<string, C[]> {
  const grouped = new Map<string, C[]>();
  for (const component of components) grouped.set(component.name, [...(grouped.get(component.name) ?? []), component]);
  return grouped;
}
