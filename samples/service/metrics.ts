/* Metrics of the library for Prometheus, on a route of the service. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { useMetrics } from "azure-storage-concurrency";

export interface Metrics {
  readonly write: (request: IncomingMessage, response: ServerResponse) => void;
  stop(): Promise<void>;
}

export function startMetrics(): Metrics {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const provider = new MeterProvider({ readers: [exporter] });
  useMetrics(provider);
  return {
    write: (request, response) => exporter.getMetricsRequestHandler(request, response),
    stop: async () => {
      useMetrics(undefined);
      await provider.shutdown();
    },
  };
}
