import { metrics } from "@opentelemetry/api";
import { expect, it, onTestFinished, vi } from "vitest";

import { BlobLocks, enqueue, jsonBlob, LeaderElection, optimisticUpdate, QueueConsumer, tableEntity, useMetrics, withLease } from "../../src/index.js";
import { RecordedMetrics } from "../../test/support/metrics.js";
import { freshContainer, freshQueue, freshTable } from "../support/clients.js";

interface Doc {
  n: number;
}

it("metrics of the service: updates with conflicts, locks, a leader and a queue, collected by the SDK of OpenTelemetry", async () => {
  const [container, queue, table] = await Promise.all([freshContainer(), freshQueue(), freshTable()]);
  const recorded = new RecordedMetrics();
  onTestFinished(() => recorded.stop());

  const blob = container.getBlockBlobClient("doc");
  await blob.upload('{"n":0}', 7);
  let runs = 0;
  await optimisticUpdate<Doc>(jsonBlob(blob), async (doc) => {
    if (runs++ === 0) await blob.upload('{"n":5}', 7);
    doc.n++;
  });
  await optimisticUpdate(tableEntity<Doc>(table, "p", "r"), (row) => { row.n++; }, { initial: { n: 0 } });
  expect(await recorded.values("update.attempts")).toEqual([
    [{ "azsc.call": "optimisticUpdate", "azsc.target.kind": "jsonBlob", "azsc.outcome": "conflict" }, 1],
    [{ "azsc.call": "optimisticUpdate", "azsc.target.kind": "jsonBlob", "azsc.outcome": "updated" }, 1],
    [{ "azsc.call": "optimisticUpdate", "azsc.target.kind": "tableEntity", "azsc.outcome": "created" }, 1],
  ]);

  const locks = new BlobLocks(container);
  await withLease(blob, () => locks.withLock("a", async () => expect((await recorded.values("lease.held")).map(([, held]) => held)).toEqual([1, 1])));
  expect((await recorded.values("lease.hold_time")).map(([attributes, count]) => [attributes["azsc.target.kind"], count])).toEqual([
    ["lock", 1],
    ["lease", 1],
  ]);

  const election = new LeaderElection(locks, "scheduler", () => undefined);
  await election.start();
  await vi.waitFor(async () => expect(await recorded.values("election.leader")).toEqual([[{ "azsc.name": "scheduler" }, 1]]), 30_000);
  await election.stop();

  const ofQueue = { "messaging.system": "azure_queue_storage", "messaging.destination.name": queue.name };
  for (let i = 0; i < 3; i++) await enqueue(queue, { i });
  const consumer = new QueueConsumer(queue, () => undefined, { minPollIntervalInMs: 100 });
  consumer.pause();
  await consumer.start();
  expect(await recorded.values("queue.length")).toEqual([[ofQueue, 3]]);
  consumer.resume();
  await vi.waitFor(async () => expect(await recorded.values("queue.messages")).toEqual([[{ ...ofQueue, "azsc.outcome": "completed" }, 3]]), 30_000);
  await consumer.stop();
  expect(await recorded.values("queue.message_age")).toEqual([[ofQueue, 3]]);

  // No value names a blob, a key, a message or the account.
  const labels = JSON.stringify((await recorded.all()).flatMap(({ dataPoints }) => dataPoints.map(({ attributes }) => attributes)));
  for (const secret of [blob.url, container.containerName, '"p"', '"r"', '"a"']) expect(labels).not.toContain(secret);
});

it("are recorded through the API of OpenTelemetry as well, once a provider is registered", async () => {
  const recorded = new RecordedMetrics();
  onTestFinished(() => {
    recorded.stop();
    metrics.disable();
  });
  metrics.setGlobalMeterProvider(recorded.provider);
  useMetrics(metrics);
  const blob = (await freshContainer()).getBlockBlobClient("doc");
  await optimisticUpdate<Doc>(jsonBlob(blob), (doc) => { doc.n++; }, { initial: { n: 0 } });
  expect(await recorded.values("update.duration")).toEqual([[{ "azsc.call": "optimisticUpdate", "azsc.target.kind": "jsonBlob", "azsc.outcome": "created" }, 1]]);
});
