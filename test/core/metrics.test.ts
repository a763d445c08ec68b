import { readFileSync } from "node:fs";

import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fakeBlob } from "../../bench/fakes.js";
import type { MeterProviderLike } from "../../src/clients.js";
import { createIfNotExists, deleteIfUnchanged, jsonBlob, leasedUpdate, optimisticUpdate, overwrite, runTransaction, useMetrics } from "../../src/index.js";
import { observed, recorder, withUpdate } from "../../src/core/measure.js";
import { Attempts } from "../../src/core/telemetry.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { loseAnswerForGood } from "../fakes/faults.js";
import { FakeService } from "../fakes/fake-service.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { RecordedMetrics } from "../support/metrics.js";
import { ClockService } from "../once/fakes.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

let metrics: RecordedMetrics;
beforeEach(() => {
  metrics = new RecordedMetrics();
});
afterEach(() => metrics.stop());

const call = (name: string, kind: string): object => ({ "azsc.call": name, "azsc.target.kind": kind });
const optimistic = call("optimisticUpdate", "jsonBlob");

describe("updates", () => {
  it("are counted by outcome, with their attempts and what each write carries", async () => {
    const { blob } = counterBlob();
    let runs = 0;
    await optimisticUpdate<Counter>(jsonBlob(blob), (doc) => {
      if (runs++ === 0) blob.putKeeping({ n: 5 });
      doc.n++;
    });
    await Promise.all([1, 2, 3].map(() => optimisticUpdate<Counter>(jsonBlob(blob), increment)));
    await optimisticUpdate<Counter>(jsonBlob(blob), () => undefined);
    expect(await metrics.values("update.duration")).toEqual([
      [{ ...optimistic, "azsc.outcome": "updated" }, 4],
      [{ ...optimistic, "azsc.outcome": "unchanged" }, 1],
    ]);
    expect(await metrics.values("update.attempts")).toEqual([
      [{ ...optimistic, "azsc.outcome": "conflict" }, 1],
      [{ ...optimistic, "azsc.outcome": "updated" }, 4],
      [{ ...optimistic, "azsc.outcome": "unchanged" }, 1],
    ]);
    const batches = { "azsc.call": "optimisticUpdate" };
    expect(await metrics.values("update.batch_size")).toEqual([[batches, 3]]);
    expect(await metrics.sums("update.batch_size")).toEqual([[batches, 5]]);
  });

  it("that give up say why: the last conflict counts, and so does a write of unknown outcome", async () => {
    const { service, blob } = counterBlob();
    const update = (maxAttempts: number): Promise<unknown> =>
      optimisticUpdate<Counter>(jsonBlob(blob), (doc) => {
        blob.put({ n: 5 });
        doc.n++;
      }, { maxAttempts, retryDelayInMs: 1 });
    await expect(update(2)).rejects.toThrow("other writers");
    expect(await metrics.values("update.attempts")).toEqual([[{ ...optimistic, "azsc.outcome": "conflict" }, 2]]);
    expect(await metrics.values("update.duration")).toEqual([[{ ...optimistic, "azsc.outcome": "failed", "error.type": "ConflictError" }, 1]]);
    service.each("write", loseAnswerForGood);
    await expect(optimisticUpdate<Counter>(jsonBlob(blob), increment, { timeoutInMs: 100, journal: false })).rejects.toThrow("unknown");
    expect(await metrics.values("update.attempts")).toContainEqual([{ ...optimistic, "azsc.outcome": "unknown" }, 1]);
    expect(await metrics.values("update.duration")).toContainEqual([{ ...optimistic, "azsc.outcome": "failed", "error.type": "CommitUnknownError" }, 1]);
  });

  it("have an error type of a bounded set, whatever an application throws", async () => {
    const { blob } = counterBlob();
    for (let i = 0; i < 3; i++) {
      const update = optimisticUpdate<Counter>(jsonBlob(blob), () => {
        throw Object.assign(new Error("secret"), { name: `Order${i}` });
      });
      await expect(update).rejects.toThrow("secret");
    }
    expect(await metrics.values("update.duration")).toEqual([[{ ...optimistic, "azsc.outcome": "failed", "error.type": "_OTHER" }, 3]]);
  });

  it("that their caller cancels are aborted, not failed", async () => {
    const { blob } = counterBlob();
    const controller = new AbortController();
    const update = optimisticUpdate<Counter>(jsonBlob(blob), () => controller.abort(), { abortSignal: controller.signal });
    await expect(update).rejects.toThrow();
    expect(await metrics.values("update.duration")).toEqual([[{ ...optimistic, "azsc.outcome": "aborted", "error.type": "AbortError" }, 1]]);
  });

  it("are all calls that write a value", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    await createIfNotExists(jsonBlob<Counter>(blob), { n: 0 });
    const { etag } = await overwrite(jsonBlob<Counter>(blob), { n: 1 });
    await leasedUpdate(jsonBlob<Counter>(blob), increment, { timeoutInMs: 50 }).catch(() => undefined);
    await deleteIfUnchanged(jsonBlob<Counter>(blob), etag).catch(() => undefined);
    await runTransaction(new FakeTransactionTable(new ClockService()), "p", (tx) => tx.create({ rowKey: "r" }));
    const calls = (await metrics.values("update.duration")).map(([attributes]) => [attributes["azsc.call"], attributes["azsc.target.kind"]]);
    expect(calls).toEqual([
      ["createIfNotExists", "jsonBlob"],
      ["overwrite", "jsonBlob"],
      ["leasedUpdate", "jsonBlob"],
      ["deleteIfUnchanged", "jsonBlob"],
      ["runTransaction", "tablePartition"],
    ]);
  });
});

describe("useMetrics", () => {
  it("records nothing before it, and nothing after undefined", async () => {
    const { blob } = counterBlob();
    useMetrics(undefined);
    await optimisticUpdate<Counter>(jsonBlob(blob), increment);
    useMetrics(metrics.provider);
    await optimisticUpdate<Counter>(jsonBlob(blob), increment);
    useMetrics(undefined);
    await optimisticUpdate<Counter>(jsonBlob(blob), increment);
    expect(await metrics.values("update.duration")).toEqual([[{ ...optimistic, "azsc.outcome": "updated" }, 1]]);
  });

  it("replaces the provider of an earlier call", async () => {
    const { blob } = counterBlob();
    const second = new RecordedMetrics();
    await optimisticUpdate<Counter>(jsonBlob(blob), increment);
    expect(await metrics.values("update.duration")).toEqual([]);
    expect(await second.values("update.duration")).toHaveLength(1);
  });

  it.each([null, {}, "metrics"])("rejects %o, which is no provider", (provider) => {
    expect(() => useMetrics(provider as never)).toThrow(TypeError);
  });

  it("throws what the provider throws, and changes nothing then", async () => {
    const { blob } = counterBlob();
    const broken = {
      getMeter: (): never => {
        throw new Error("provider");
      },
    };
    expect(() => useMetrics(broken)).toThrow("provider");
    await optimisticUpdate<Counter>(jsonBlob(blob), increment);
    expect(await metrics.values("update.duration")).toHaveLength(1);
  });

  it("changes no result if the meter throws later", async () => {
    const { blob } = counterBlob();
    const fail = vi.fn((): never => {
      throw new Error("meter");
    });
    const instrument = { add: fail, record: fail, addCallback: () => undefined };
    const meter = { createCounter: () => instrument, createUpDownCounter: () => instrument, createHistogram: () => instrument, createObservableGauge: () => instrument };
    useMetrics({ getMeter: () => meter } satisfies MeterProviderLike);
    await optimisticUpdate<Counter>(jsonBlob(blob), increment);
    expect(fail).toHaveBeenCalled();
    expect(blob.json).toEqual({ n: 1 });
  });
});

describe("docs/metrics.md", () => {
  const page = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");
  const source = readFileSync(new URL("../../src/core/metrics.ts", import.meta.url), "utf8");

  it("lists all instruments, and no others", () => {
    const created = [...source.matchAll(/`\$\{namespace\}(\.[\w.]+)`|"(messaging\.(?:client|process)\.[\w.]+)"/g)].map(([, own, shared]) => shared ?? `azure_storage_concurrency${own!}`);
    const listed = [...page.matchAll(/^\| `([\w.]+)` \| (?:counter|up-down counter|histogram|gauge)/gm)].map(([, name]) => name);
    expect(created.length).toBeGreaterThan(15);
    expect(listed.toSorted()).toEqual(created.toSorted());
  });
});

describe("the alerts of docs/metrics.md", () => {
  const page = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");

  it("use series and labels that Prometheus gets", async () => {
    const attempts = new Attempts("optimisticUpdate", undefined, undefined);
    const observer = recorder!.updateObserver({});
    observer.attemptEnded(attempts, "conflict", undefined);
    observer.callEnded(attempts, undefined);
    recorder!.countBatch(1, attempts);
    recorder!.countHolder("lock")!("expired");
    recorder!.measureWait(Promise.resolve(1), "lock", {});
    recorder!.countHandOver("lock");
    recorder!.countTerm("election", 1, "failed");
    recorder!.countDelivery("orders", "poisoned");
    recorder!.countReceived("orders", 1);
    recorder!.countHandler("orders", 1, undefined);
    recorder!.countRun("default", { job: "sweep", state: "running", dueOn: new Date(), startedOn: new Date(), durationInMs: undefined });
    recorder!.countRun("default", { job: "sweep", state: "failed", dueOn: new Date(), startedOn: new Date(), durationInMs: 1 });
    const election = { name: "scheduler", isLeader: true };
    const consumer = { name: "orders", inFlight: 0, queueLength: () => Promise.resolve(1) };
    observed.elections.add(election);
    observed.consumers.add(consumer);
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the exporter has a copy of the SDK, of another patch version
    const exposed = new PrometheusSerializer().serialize(await metrics.collected());
    observed.elections.delete(election);
    observed.consumers.delete(consumer);
    const alerts = page.slice(page.indexOf("## What to alert on"), page.indexOf("## Cost"));
    const series = [...alerts.matchAll(/\b(?:azure_storage_concurrency|messaging_client)_\w+/g)].map(([name]) => name);
    expect(new Set(series).size).toBeGreaterThan(8);
    for (const name of series) expect(exposed).toMatch(new RegExp(`^${name}\\{`, "m"));
    for (const [, label] of alerts.matchAll(/\b(azsc_\w+|messaging_destination_name)\b/g)) expect(exposed).toContain(`${label!}="`);
  });
});

describe("the time that metrics take", () => {
  /** CPU time of the process in µs for each call; the other processes of a busy machine do not count. */
  async function cpuOf(call: () => Promise<unknown>, calls: number): Promise<number> {
    const before = process.cpuUsage();
    for (let i = 0; i < calls; i++) await call();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / calls;
  }

  const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

  // An update takes 12 µs on an idle machine. On a busy one everything is slower, and the ratio stays. What is added is measured on a call
  // that does nothing else: as a part of the update, it would be less than the noise.
  it("is at most a microsecond an update while no reader collects them", async () => {
    const blob = fakeBlob("counter");
    const update = (): Promise<unknown> => optimisticUpdate<Counter>(jsonBlob(blob), increment);
    const measuredPart = (): Promise<void> =>
      withUpdate("optimisticUpdate", {}, async (attempts) => {
        attempts.targetKind = "jsonBlob";
        attempts.begin();
        recorder?.countBatch(1, attempts);
        attempts.end("updated");
      });
    const provider = new MeterProvider();
    const times = { on: [] as number[], off: [] as number[], update: [] as number[] };
    for (let turn = -40; turn < 120; turn++) {
      const found = { on: 0, off: 0, update: 0 };
      for (const side of turn % 2 === 0 ? (["on", "update", "off"] as const) : (["off", "update", "on"] as const)) {
        useMetrics(side === "on" ? provider : undefined);
        found[side] = side === "update" ? await cpuOf(update, 25) : await cpuOf(measuredPart, 300);
      }
      if (turn >= 0) for (const side of ["on", "off", "update"] as const) times[side].push(found[side]);
    }
    const ratio = (median(times.on) - median(times.off)) / median(times.update);
    console.log(`metrics without a reader add ${(100 * ratio).toFixed(1)} % to the CPU time of an update`);
    expect(ratio).toBeLessThan(1 / 12);
  });
});
