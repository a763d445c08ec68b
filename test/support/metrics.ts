import { DataPointType, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import type { DataPoint, Histogram, MetricData, ResourceMetrics } from "@opentelemetry/sdk-metrics";

import { useMetrics } from "../../src/index.js";

/** Collects when a test wants it to, and starts no timer. */
class OnDemandReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }
}

export type Attributes = Readonly<Record<string, unknown>>;

/** What the library has recorded with the SDK of OpenTelemetry since this was created. */
export class RecordedMetrics {
  readonly provider: MeterProvider;
  readonly #reader = new OnDemandReader();

  constructor() {
    this.provider = new MeterProvider({ readers: [this.#reader] });
    useMetrics(this.provider);
  }

  stop(): void {
    useMetrics(undefined);
  }

  async collected(): Promise<ResourceMetrics> {
    const { resourceMetrics, errors } = await this.#reader.collect();
    if (errors.length > 0) throw errors[0];
    return resourceMetrics;
  }

  async all(): Promise<readonly MetricData[]> {
    return (await this.collected()).scopeMetrics.flatMap(({ metrics }) => metrics);
  }

  /** The values of a counter or gauge; of a histogram the counts. Without the attributes that all of them have. */
  async values(name: string): Promise<[Attributes, number][]> {
    const metric = await this.#find(name);
    if (!metric) return [];
    if (metric.dataPointType !== DataPointType.HISTOGRAM) return (metric.dataPoints as DataPoint<number>[]).map(({ attributes, value }) => [attributes, value]);
    return metric.dataPoints.map(({ attributes, value }) => [attributes, value.count]);
  }

  /** The sums of a histogram. */
  async sums(name: string): Promise<[Attributes, number][]> {
    const metric = await this.#find(name);
    return ((metric?.dataPoints ?? []) as DataPoint<Histogram>[]).map(({ attributes, value }) => [attributes, value.sum ?? NaN]);
  }

  async #find(name: string): Promise<MetricData | undefined> {
    return (await this.all()).find(({ descriptor }) => descriptor.name === name || descriptor.name === `azure_storage_concurrency.${name}`);
  }
}
