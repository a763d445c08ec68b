import { describe, expect, it } from "vitest";
import { appendExactlyOnce, jsonBlob, optimisticUpdate, runTransaction, tableEntity } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { answer, before, busy, copyBelowSdk, loseRequest, pass } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

useFakeTimers();

/** An operation that has one effect each time, and what it works on. */
interface Subject {
  readonly service: FakeService;
  readonly run: () => Promise<{ attempts: number }>;
  /** How many effects are stored. */
  readonly effects: () => number;
  /** Another client writes. */
  readonly interfere: () => void;
  /** The request that decides. */
  readonly write: string;
  /** What one operation costs if no other client writes and nothing is known from the one before. */
  readonly requests: readonly string[];
  /** What follows after a conflict until the next attempt has written. */
  readonly afterConflict: readonly string[];
}

const subjects: Readonly<Record<string, () => Subject>> = {
  appendExactlyOnce: () => appendSubject(false),
  "appendExactlyOnce with uniqueRecords": () => appendSubject(true),
  "optimisticUpdate of a blob": () => {
    const { service, blob } = counterBlob();
    return {
      service,
      run: () => optimisticUpdate(jsonBlob<Counter>(blob), increment),
      effects: () => (blob.json as Counter).n,
      interfere: () => blob.putKeeping({ n: 0 }),
      write: "upload",
      requests: ["download", "upload"],
      afterConflict: ["download", "upload"],
    };
  },
  "optimisticUpdate of an entity": () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 0 } });
    return {
      service,
      run: () => optimisticUpdate(tableEntity<Counter>(table, "p", "r"), increment),
      effects: () => Number(table.property("n")?.value),
      interfere: () => table.merge({ n: { type: "Int32", value: 0 } }),
      write: "updateEntity",
      requests: ["getEntity", "updateEntity"],
      afterConflict: ["getEntity", "updateEntity"],
    };
  },
  runTransaction: () => {
    const { service, table } = fakePartition({ a: 0 });
    return {
      service,
      run: () =>
        runTransaction(table, "p", async (tx) => {
          tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 });
          return { attempts: tx.attempt };
        }),
      effects: () => Number(valueOf(table, "a")),
      interfere: () => set(table, "a", 0),
      write: "submitTransaction",
      requests: ["getEntity", "submitTransaction"],
      afterConflict: ["getEntity", "submitTransaction"],
    };
  },
};

function appendSubject(uniqueRecords: boolean): Subject {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put();
  let records = 0;
  return {
    service,
    run: () => appendExactlyOnce(blob, uniqueRecords ? `${records++}\n` : "same\n", { uniqueRecords }),
    effects: () => blob.text.split("\n").length - 1,
    interfere: () => blob.appendForeign("x"),
    write: "appendBlock",
    requests: ["getProperties", ...(uniqueRecords ? [] : ["setMetadata"]), "appendBlock"],
    afterConflict: ["getProperties", ...(uniqueRecords ? [] : ["setMetadata"]), "appendBlock"],
  };
}

describe.each(Object.entries(subjects))("%s", (_, subject) => {
  // Of appends with a claim, every fourth write is always a block, and every third one a block or a claim in turn.
  it.each([3, 4])("has its effect once although a browser or a proxy sends one write in %i twice", async (nth) => {
    const { service, run, effects } = subject();
    service.next("write", ...Array.from({ length: 200 }, (_, index) => (index % nth === nth - 1 ? copyBelowSdk : pass)));
    const attempts: number[] = [];
    for (let i = 0; i < 40; i++) attempts.push((await inFakeTime(run())).attempts);
    expect(effects()).toBe(40);
    expect(service.requests.filter(({ sends, served }) => sends === 1 && served === 2).length).toBeGreaterThanOrEqual(10);
    expect(attempts).toEqual(Array.from({ length: 40 }, () => 1));
  });

  it("has its effect once even if the read after the conflict fails twice", async () => {
    const { service, run, effects, write, requests } = subject();
    service.next(write, copyBelowSdk);
    service.next("read", ...requests.filter((request) => request.startsWith("get") || request === "download").map(() => pass), busy, loseRequest);
    expect((await inFakeTime(run())).attempts).toBe(1);
    expect(effects()).toBe(1);
  });

  it("has its effect once even if the service rejects the read after the conflict, with a token that is renewed", async () => {
    const { service, run, effects, write, requests } = subject();
    service.next(write, copyBelowSdk);
    service.next("read", ...requests.filter((request) => request.startsWith("get") || request === "download").map(() => pass), answer(403, "AuthenticationFailed"));
    expect((await inFakeTime(run())).attempts).toBe(1);
    expect(effects()).toBe(1);
  });

  it("makes no more requests for that while no write meets a conflict", async () => {
    const { service, run, requests } = subject();
    await inFakeTime(run());
    expect(service.operations).toEqual(requests);
  });

  it("looks for its write in the one read that it needs after a conflict anyway", async () => {
    const { service, run, interfere, write, requests, afterConflict } = subject();
    service.next(write, before(interfere));
    expect((await inFakeTime(run())).attempts).toBe(2);
    expect(service.operations).toEqual([...requests, ...afterConflict]);
  });
});

it.each([false, true])("appendExactlyOnce (uniqueRecords: %s) also reads its range if another client appended as much there without a claim", async (uniqueRecords) => {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put();
  service.next("appendBlock", before(() => blob.appendForeign("another client's record\n")));
  expect(await inFakeTime(appendExactlyOnce(blob, "record\n", { uniqueRecords }))).toMatchObject({ attempts: 2 });
  expect(blob.text).toBe("another client's record\nrecord\n");
  const attempt = [...(uniqueRecords ? [] : ["setMetadata"]), "appendBlock"];
  expect(service.operations).toEqual(["getProperties", ...attempt, "getProperties", "download", ...attempt]);
});

it.each([false, true])("appendExactlyOnce (uniqueRecords: %s) appends once even if its range cannot be read at first after a copy", async (uniqueRecords) => {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put();
  service.next("appendBlock", copyBelowSdk);
  service.next("download", busy);
  expect(await inFakeTime(appendExactlyOnce(blob, "record\n", { uniqueRecords }))).toMatchObject({ offset: 0, attempts: 1 });
  expect(blob.text).toBe("record\n");
});
