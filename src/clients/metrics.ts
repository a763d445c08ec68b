/** The attributes of a measurement. Each has few values. See {@link MeterProviderLike}. */
export type MetricAttributesLike = Record<string, string>;

/** How an instrument is created. See {@link MeterProviderLike}. */
export interface InstrumentOptionsLike {
  description?: string;
  unit?: string;
  advice?: { explicitBucketBoundaries?: number[] };
}

/** A counter that only grows, or one that also falls. See {@link MeterProviderLike}. */
export interface CounterLike {
  add(value: number, attributes?: MetricAttributesLike): void;
}

/** The distribution of a value. See {@link MeterProviderLike}. */
export interface HistogramLike {
  record(value: number, attributes?: MetricAttributesLike): void;
}

/** Gets the values of a gauge when metrics are collected. See {@link MeterProviderLike}. */
export interface ObservableResultLike {
  observe(value: number, attributes?: MetricAttributesLike): void;
}

/** A value that is read when metrics are collected. See {@link MeterProviderLike}. */
export interface ObservableGaugeLike {
  addCallback(callback: (result: ObservableResultLike) => void | Promise<void>): void;
}

/** What the library calls of a `Meter` of `@opentelemetry/api`. See {@link MeterProviderLike}. */
export interface MeterLike {
  createCounter(name: string, options?: InstrumentOptionsLike): CounterLike;
  createUpDownCounter(name: string, options?: InstrumentOptionsLike): CounterLike;
  createHistogram(name: string, options?: InstrumentOptionsLike): HistogramLike;
  createObservableGauge(name: string, options?: InstrumentOptionsLike): ObservableGaugeLike;
}

/**
 * A `MeterProvider` of OpenTelemetry, or `metrics` of `@opentelemetry/api`: what `useMetrics` takes.
 * @example
 * ```ts
 * import { metrics } from "@opentelemetry/api";
 *
 * const provider: MeterProviderLike = metrics;
 * useMetrics(provider);
 * ```
 */
export interface MeterProviderLike {
  getMeter(name: string): MeterLike;
}
