import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { ConflictError, jsonBlob, optimisticUpdate, DELETE, tableEntity, TargetNotFoundError } from "../../src/index.js";
import type { UpdateResult } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { answer, before, gate, hang } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("group commit", () => {
  it("reads once and writes once for all that came in the meantime, and applies them in order", async () => {
    const { service, blob } = counterBlob();
    const order: number[] = [];
    const updates = Array.from({ length: 100 }, (_, i) =>
      optimisticUpdate<Counter>(blob, (doc) => {
        order.push(i);
        doc.n++;
      }),
    );
    const results = await Promise.all(updates);
    expect(service.operations).toEqual(["download", "upload"]);
    expect(order).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(results.map((result) => result.value.n)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
    expect(blob.json).toEqual({ n: 100 });
  });

  it("goes on from the ETag of its own write while there is a queue", async () => {
    const { service, blob } = counterBlob();
    const write = gate();
    service.next("upload", write.fault);
    const first = optimisticUpdate<Counter>(blob, increment);
    await write.reached;
    const more = [optimisticUpdate<Counter>(blob, increment), optimisticUpdate<Counter>(blob, increment)];
    write.open();
    await Promise.all([first, ...more]);
    expect(service.operations).toEqual(["download", "upload", "upload"]);
    expect(blob.json).toEqual({ n: 3 });
  });

  it("writes at most 1000 changes at once", async () => {
    const { service, blob } = counterBlob();
    await Promise.all(Array.from({ length: 1_001 }, () => optimisticUpdate<Counter>(blob, increment)));
    expect(service.operations).toEqual(["download", "upload", "upload"]);
    expect(blob.json).toEqual({ n: 1_001 });
  });

  it("gives each caller a value of its own, which nobody else sees changing", async () => {
    const { blob } = counterBlob();
    const results = await Promise.all([1, 2].map(() => optimisticUpdate<Counter>(blob, increment)));
    results[0]!.value.n = 100;
    expect(results[1]!.value).toEqual({ n: 2 });
  });

  it("gives the ETag of the stored value to the last caller only; that of the others never matches", async () => {
    const { blob } = counterBlob();
    const results = await Promise.all([1, 2, 3].map(() => optimisticUpdate<Counter>(blob, increment)));
    const matches = results.map(({ etag }) => etag === blob.stored?.etag);
    expect(matches).toEqual([false, false, true]);
    for (const { etag } of results.slice(0, 2)) {
      await expect(blob.upload(new Uint8Array(), 0, { conditions: { ifMatch: etag! } })).rejects.toMatchObject({ statusCode: 412 });
    }
  });

  it("gives a caller that changed nothing the ETag of what it saw, if that is what is stored", async () => {
    const { blob } = counterBlob();
    const [early, , late] = await Promise.all([
      optimisticUpdate<Counter>(blob, () => undefined),
      optimisticUpdate<Counter>(blob, increment),
      optimisticUpdate<Counter>(blob, () => undefined),
    ]);
    expect(early).toMatchObject({ outcome: "unchanged", value: { n: 0 } });
    expect(early.etag).not.toBe(blob.stored?.etag);
    expect(late).toMatchObject({ outcome: "unchanged", value: { n: 1 }, etag: blob.stored?.etag });
  });

  describe("when a mutator throws", () => {
    for (const position of [0, 1, 2]) {
      it(`rolls it back alone (as number ${position + 1} of 3)`, async () => {
        const { service, blob } = counterBlob();
        const updates = [0, 1, 2].map((i) =>
          optimisticUpdate<Counter>(blob, (doc) => {
            doc.n++;
            if (i === position) throw new Error("no");
          }),
        );
        const results = await Promise.allSettled(updates);
        expect(results.map(({ status }) => status)).toEqual([0, 1, 2].map((i) => (i === position ? "rejected" : "fulfilled")));
        expect(results[position]).toMatchObject({ reason: new Error("no") });
        expect(blob.json).toEqual({ n: 2 });
        expect(service.operations).toEqual(["download", "upload"]);
      });
    }

    it("rolls back what it returned in a promise, too", async () => {
      const { blob } = counterBlob();
      const results = await Promise.allSettled([
        optimisticUpdate<Counter>(blob, async (doc) => {
          doc.n = 100;
          await Promise.resolve();
          throw new Error("no");
        }),
        optimisticUpdate<Counter>(blob, increment),
      ]);
      expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
      expect(blob.json).toEqual({ n: 1 });
    });

    it("runs it again if it objected to a change that was never stored", async () => {
      const { service, blob } = counterBlob();
      service.next("upload", before(() => blob.putKeeping({ n: 10 })));
      let refuse = true;
      const other = optimisticUpdate<Counter>(blob, (doc) => {
        if (doc.n === 10) refuse = false;
        else doc.n = -1;
      });
      const objecting = optimisticUpdate<Counter>(blob, (doc) => {
        if (doc.n < 0) throw new Error("negative");
        doc.n++;
      });
      const done = Promise.all([other, objecting]);
      await vi.runAllTimersAsync();
      const [, result] = await done;
      expect(refuse).toBe(false);
      expect(result).toMatchObject({ value: { n: 11 }, attempts: 2 });
    });

    it("keeps its error if the change that it objected to is stored", async () => {
      const { blob } = counterBlob();
      const results = await Promise.allSettled([
        optimisticUpdate<Counter>(blob, (doc) => void (doc.n = -1)),
        optimisticUpdate<Counter>(blob, (doc) => {
          if (doc.n < 0) throw new Error("negative");
        }),
      ]);
      expect(results[1]).toMatchObject({ reason: new Error("negative") });
      expect(blob.json).toEqual({ n: -1 });
    });
  });

  describe("when a caller aborts", () => {
    it("leaves out its change if it goes while a later mutator of the same write runs", async () => {
      const { service, blob } = counterBlob();
      const controller = new AbortController();
      const slow = deferred<undefined>();
      const aborted = rejection(
        optimisticUpdate<Counter>(blob, (doc) => void (doc.n += 100), { abortSignal: controller.signal }),
      );
      const other = optimisticUpdate<Counter>(blob, async (doc) => {
        controller.abort(new Error("enough"));
        await slow.promise;
        doc.n++;
      });
      await vi.advanceTimersByTimeAsync(1);
      slow.resolve(undefined);
      expect((await aborted).message).toBe("enough");
      expect((await other).value).toEqual({ n: 1 });
      expect(service.operations).toEqual(["download", "upload"]);
      expect(blob.json).toEqual({ n: 1 });
    });

    it("sends nothing at all if it has aborted before", async () => {
      const { service, blob } = counterBlob();
      const mutator = vi.fn(increment);
      const reason = new Error("enough");
      await expect(optimisticUpdate<Counter>(blob, mutator, { abortSignal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      expect(service.count()).toBe(0);
      expect(mutator).not.toHaveBeenCalled();
    });

    it("does not run its mutator if it aborts during the read, and serves the others", async () => {
      const { service, blob } = counterBlob();
      const read = gate();
      service.next("download", read.fault);
      const controller = new AbortController();
      const mutator = vi.fn(increment);
      const aborted = rejection(optimisticUpdate<Counter>(blob, mutator, { abortSignal: controller.signal }));
      const other = optimisticUpdate<Counter>(blob, increment);
      await read.reached;
      controller.abort(new Error("enough"));
      read.open();
      expect((await aborted).message).toBe("enough");
      expect((await other).value).toEqual({ n: 1 });
      expect(mutator).not.toHaveBeenCalled();
    });

    it("drops what its mutator did if it aborts while that runs, and serves the others", async () => {
      const { service, blob } = counterBlob();
      const controller = new AbortController();
      const running = deferred();
      const first = optimisticUpdate<Counter>(blob, increment);
      const aborted = rejection(
        optimisticUpdate<Counter>(
          blob,
          async (doc) => {
            doc.n += 100;
            running.resolve();
            await new Promise(() => undefined);
          },
          { abortSignal: controller.signal },
        ),
      );
      const last = optimisticUpdate<Counter>(blob, increment);
      await running.promise;
      controller.abort();
      expect((await aborted).name).toBe("AbortError");
      expect((await Promise.all([first, last])).map(({ value }) => value.n)).toEqual([1, 2]);
      expect(blob.json).toEqual({ n: 2 });
      expect(service.operations).toEqual(["download", "upload"]);
    });

    it("lets the write of the others finish if it aborts during that", async () => {
      const { service, blob } = counterBlob();
      const write = gate();
      service.next("upload", write.fault);
      const controller = new AbortController();
      const aborted = rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal: controller.signal }));
      const other = optimisticUpdate<Counter>(blob, increment);
      await write.reached;
      controller.abort(new Error("enough"));
      expect((await aborted).message).toBe("enough");
      write.open();
      expect(await other).toMatchObject({ value: { n: 2 }, attempts: 1 });
      expect(service.count("upload")).toBe(1);
    });

    it("aborts a hung read when the last caller goes", async () => {
      const { service, blob } = counterBlob();
      service.next("download", hang);
      const controllers = [new AbortController(), new AbortController()];
      const download = vi.spyOn(blob, "download");
      const updates = controllers.map(({ signal }) => rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal: signal })));
      await vi.advanceTimersByTimeAsync(0);
      const { abortSignal } = download.mock.calls[0]![2]!;
      controllers[0]!.abort();
      expect(abortSignal?.aborted).toBe(false);
      controllers[1]!.abort();
      expect(abortSignal?.aborted).toBe(true);
      await Promise.all(updates);
    });

    it("aborts a hung write when the last caller of that write goes, and serves those that came later", async () => {
      const { service, blob } = counterBlob();
      service.next("upload", hang);
      const controller = new AbortController();
      const gone = rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal: controller.signal }));
      await vi.advanceTimersByTimeAsync(0);
      expect(service.operations).toEqual(["download", "upload"]);
      const later = optimisticUpdate<Counter>(blob, increment);
      controller.abort();
      await gone;
      expect(await later).toMatchObject({ value: { n: 1 } });
    });

    it("does not fail one that comes in the same instant with the abort of the read that was under way", async () => {
      const { service, blob } = counterBlob();
      service.next("download", hang);
      const controller = new AbortController();
      const gone = rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal: controller.signal }));
      await vi.advanceTimersByTimeAsync(0);
      controller.abort();
      const next = optimisticUpdate<Counter>(blob, increment);
      await gone;
      expect(await next).toMatchObject({ value: { n: 1 } });
    });
  });

  describe("when an async mutator is slow", () => {
    it("does not make the others wait for one that hangs", async () => {
      const { blob } = counterBlob();
      const hung = rejection(optimisticUpdate<Counter>(blob, () => new Promise<undefined>(() => undefined), { timeoutInMs: 5_000 }));
      const other = optimisticUpdate<Counter>(blob, increment);
      await vi.advanceTimersByTimeAsync(50);
      expect((await other).value).toEqual({ n: 1 });
      await vi.advanceTimersByTimeAsync(5_000);
      expect(await hung).toMatchObject({ name: "OperationTimeoutError" });
    });

    it("lets it take its time if nobody waits behind it", async () => {
      const { service, blob } = counterBlob();
      const slow = optimisticUpdate<Counter>(blob, async (doc) => {
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        doc.n++;
      });
      await vi.advanceTimersByTimeAsync(3_000);
      expect(await slow).toMatchObject({ value: { n: 1 }, attempts: 1 });
      expect(service.operations).toEqual(["download", "upload"]);
    });

    it("lets it step aside and still gets it through, while others keep coming, without two runs at once", async () => {
      const { blob } = counterBlob();
      let running = 0;
      let overlapped = false;
      const slow = optimisticUpdate<Counter>(blob, async (doc) => {
        overlapped ||= ++running > 1;
        await new Promise((resolve) => setTimeout(resolve, 300));
        running--;
        doc.n += 1_000;
      });
      let others = 0;
      const crowd: Promise<UpdateResult<Counter>>[] = [];
      const pump = setInterval(() => {
        others++;
        crowd.push(optimisticUpdate<Counter>(blob, increment));
      }, 20);
      await vi.advanceTimersByTimeAsync(5_000);
      clearInterval(pump);
      const result = await slow;
      expect(result.attempts).toBeGreaterThan(1);
      expect(overlapped).toBe(false);
      await vi.runAllTimersAsync();
      await Promise.all(crowd);
      expect(blob.json).toEqual({ n: 1_000 + others });
    });
  });

  describe("when several async mutators are slow", () => {
    const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

    it("is no conflict: with one attempt they are applied all the same", async () => {
      const { blob } = counterBlob();
      const slow = optimisticUpdate<Counter>(blob, async (doc) => {
        await wait(120);
        doc.n++;
      }, { maxAttempts: 1 });
      const other = optimisticUpdate<Counter>(blob, increment, { maxAttempts: 1 });
      expect((await inFakeTime(other)).value).toEqual({ n: 1 });
      expect((await slow).value).toEqual({ n: 2 });
    });

    it("commits them in the order of the calls, and a fast one waits for one of them at most", async () => {
      const { blob } = counterBlob();
      const order: number[] = [];
      const slow = Array.from({ length: 6 }, (_, i) => optimisticUpdate<Counter>(blob, async (doc) => {
        await wait(1_500);
        doc.n++;
      }).then(() => order.push(i)));
      await vi.advanceTimersByTimeAsync(2_000);
      const times: number[] = [];
      for (let i = 0; i < 3; i++) {
        const started = performance.now();
        void optimisticUpdate<Counter>(blob, increment).then(() => times.push(performance.now() - started));
        await vi.advanceTimersByTimeAsync(1_000);
      }
      await inFakeTime(Promise.all(slow));
      expect(order).toEqual([0, 1, 2, 3, 4, 5]);
      expect(times).toHaveLength(3);
      expect(Math.max(...times)).toBeLessThanOrEqual(1_700);
      expect(blob.json).toEqual({ n: 9 });
    });
  });

  describe("when a call changes nothing", () => {
    it("answers one that joined after the state was read from a fresh read", async () => {
      const { service, blob } = counterBlob();
      const read = gate("after");
      service.next("download", read.fault);
      const first = optimisticUpdate<Counter>(blob, () => undefined);
      await read.reached;
      // Acknowledged to somebody else before the second call: it must see this.
      blob.putKeeping({ n: 7 });
      const second = optimisticUpdate<Counter>(blob, () => undefined);
      read.open();
      expect((await first).value).toEqual({ n: 0 });
      expect(await second).toMatchObject({ value: { n: 7 }, etag: blob.stored?.etag, outcome: "unchanged" });
      expect(service.count()).toBe(2);
    });

    it("does not blame one that joined after the state was read for what is not so any more", async () => {
      const { service, blob } = counterBlob();
      const read = gate("after");
      service.next("download", read.fault);
      const first = optimisticUpdate<Counter>(blob, () => undefined);
      await read.reached;
      blob.putKeeping({ n: 7 });
      const second = optimisticUpdate<Counter>(blob, (doc) => {
        if (doc.n === 0) throw new Error("still 0");
        doc.n++;
      });
      read.open();
      await first;
      expect((await second).value).toEqual({ n: 8 });
    });

    it("does not say that it made what one removed that joined after the state was read, and has to look again", async () => {
      const service = new FakeService();
      const blob = new FakeBlockBlob(service);
      const read = gate();
      service.next("download", read.fault);
      const made = optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } });
      await read.reached;
      const removed = optimisticUpdate<Counter>(blob, () => DELETE);
      read.open();
      expect(await made).toMatchObject({ outcome: "created", value: { n: 1 } });
      // Otherwise the first one would have been told of a value that was never stored, and that nobody removed.
      expect(await removed).toMatchObject({ outcome: "deleted", value: { n: 1 } });
      expect(blob.stored).toBeUndefined();
      expect(service.operations).toEqual(["download", "download"]);
    });

    it("settles one that makes although others that make and remove join during each read", async () => {
      const service = new FakeService();
      const blob = new FakeBlockBlob(service);
      const make = (): Promise<unknown> => optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } });
      const remove = (): Promise<unknown> => optimisticUpdate<Counter>(blob, () => DELETE, { initial: { n: 0 } });
      const joined: Promise<unknown>[] = [];
      let joining = true;
      service.each("download", before(() => {
        if (joining && joined.length < 60) joined.push(remove(), make(), remove());
      }));
      await make();
      joining = false;
      expect(service.operations).toEqual(["download", "download"]);
      await Promise.all(joined);
      expect(blob.stored).toBeUndefined();
    });

    it("asks again before it says that it made and removed what somebody else has made by then", async () => {
      const { service, blob } = counterBlob();
      const deleted = gate("after");
      service.next("delete", deleted.fault);
      const first = optimisticUpdate<Counter>(blob, () => DELETE);
      await deleted.reached;
      blob.put({ n: 7 });
      const creating = optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } });
      const removing = optimisticUpdate<Counter>(blob, () => DELETE);
      deleted.open();
      await first;
      expect(await creating).toMatchObject({ outcome: "updated", value: { n: 8 } });
      expect((await removing).outcome).toBe("deleted");
      expect(blob.stored).toBeUndefined();
    });
  });

  describe("when the service refuses a combined write", () => {
    it("rejects the guilty one only, with the service's error", async () => {
      const { blob } = counterBlob();
      blob.maxSizeInBytes = 100;
      const results = await Promise.allSettled(
        [0, 1, 2].map((i) =>
          optimisticUpdate<Counter>(blob, (doc) => {
            doc.n++;
            if (i === 1) doc["huge"] = "x".repeat(200);
          }),
        ),
      );
      expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect(results[1]).toMatchObject({ reason: { statusCode: 413 } });
      expect(blob.json).toEqual({ n: 2 });
    });

    it("does not try one by one what is refused to all: one request for any number of callers without rights", async () => {
      const { service, blob } = counterBlob();
      service.next("upload", answer(403, "AuthorizationPermissionMismatch"));
      const results = await Promise.allSettled([1, 2, 3].map(() => optimisticUpdate<Counter>(blob, increment)));
      expect(results.every((result) => result.status === "rejected" && (result.reason as { statusCode: number }).statusCode === 403)).toBe(true);
      expect(service.operations).toEqual(["download", "upload"]);
    });
  });

  describe("what it does not combine", () => {
    async function requestsOf(service: FakeService, ...updates: (() => Promise<unknown>)[]): Promise<number> {
      const all = Promise.all(updates.map((update) => update()));
      await vi.runAllTimersAsync();
      await all;
      return service.count("read");
    }

    it("clients of different credentials, even of one URL", async () => {
      const { service, blob } = counterBlob();
      const other = new FakeBlockBlob(service, { url: blob.url, pipeline: {} });
      const reads = await requestsOf(service, () => optimisticUpdate<Counter>(blob, increment), () => optimisticUpdate<Counter>(other, increment));
      expect(reads).toBeGreaterThan(1);
      expect(blob.json).toEqual({ n: 2 });
    });

    it("combines two clients of one pipeline and URL", async () => {
      const { service, blob } = counterBlob();
      const other = new FakeBlockBlob(service, { url: blob.url });
      expect(await requestsOf(service, () => optimisticUpdate<Counter>(blob, increment), () => optimisticUpdate<Counter>(other, increment))).toBe(1);
    });

    it("different URLs, for instance with another SAS", async () => {
      const { service, blob } = counterBlob();
      const other = new FakeBlockBlob(service, { url: `${blob.url}?sig=x` });
      other.put({ n: 0 });
      expect(await requestsOf(service, () => optimisticUpdate<Counter>(blob, increment), () => optimisticUpdate<Counter>(other, increment))).toBe(2);
    });

    it("calls with and without a journal, or with different names of it", async () => {
      const { service, blob } = counterBlob();
      await requestsOf(
        service,
        () => optimisticUpdate<Counter>(blob, increment),
        () => optimisticUpdate<Counter>(blob, increment, { journal: false }),
        () => optimisticUpdate<Counter>(blob, increment, { journal: "other" }),
      );
      expect(service.requests.slice(0, 3).map(({ kind }) => kind)).toEqual(["read", "read", "read"]);
      expect(blob.json).toEqual({ n: 3 });
    });

    it("calls under different leases", async () => {
      const { service, blob } = counterBlob();
      blob.put({ n: 0 }, { leaseId: "mine" });
      const [mine, none] = await Promise.allSettled([
        optimisticUpdate<Counter>(blob, increment, { conditions: { leaseId: "mine" } }),
        optimisticUpdate<Counter>(blob, increment),
      ]);
      expect(mine.status).toBe("fulfilled");
      expect(none).toMatchObject({ reason: { name: "LeaseUnavailableError" } });
      expect(service.count("read")).toBe(2);
    });

    it("documents under different schemas", async () => {
      const { service, blob } = counterBlob();
      const schemas = [z.object({ n: z.number() }), z.object({ n: z.number().max(5) })];
      await requestsOf(service, ...schemas.map((schema) => () => optimisticUpdate(jsonBlob<{ n: number }>(blob, { schema }), (doc) => {
        doc.n++;
      })));
      expect(service.requests.slice(0, 2).map(({ kind }) => kind)).toEqual(["read", "read"]);
    });

    it("entities with different pinned types", async () => {
      const service = new FakeService();
      const table = new FakeTable(service);
      table.put({ n: { type: "Int32", value: 0 } });
      await requestsOf(
        service,
        () => optimisticUpdate(tableEntity<Counter>(table, "p", "r", { types: { m: "Double" } }), increment),
        () => optimisticUpdate(tableEntity<Counter>(table, "p", "r"), increment),
      );
      expect(service.requests.slice(0, 2).map(({ kind }) => kind)).toEqual(["read", "read"]);
      expect(table.property("n")).toEqual({ type: "Int32", value: 2 });
    });

    it("calls that opt out", async () => {
      const { service, blob } = counterBlob();
      await requestsOf(service, ...[1, 2, 3].map(() => () => optimisticUpdate<Counter>(blob, increment, { coalesce: false })));
      expect(service.requests.slice(0, 3).map(({ kind }) => kind)).toEqual(["read", "read", "read"]);
      expect(blob.json).toEqual({ n: 3 });
    });
  });

  it("removes and makes anew within one write", async () => {
    const { service, blob } = counterBlob();
    const [removing, missing, creating] = await Promise.allSettled([
      optimisticUpdate<Counter>(blob, () => DELETE),
      optimisticUpdate<Counter>(blob, increment),
      optimisticUpdate<Counter>(blob, increment, { initial: { n: 10 } }),
    ]);
    expect(removing).toMatchObject({ value: { outcome: "deleted", value: { n: 0 } } });
    expect(missing).toMatchObject({ reason: { name: "TargetNotFoundError" } });
    expect(missing.status === "rejected" && missing.reason instanceof TargetNotFoundError).toBe(true);
    expect(creating).toMatchObject({ value: { outcome: "created", value: { n: 11 } } });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it("loses a race for all of a group at once, and wins it at once", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.putKeeping({ n: 100 })));
    const updates = Promise.all([1, 2, 3].map(() => optimisticUpdate<Counter>(blob, increment)));
    await vi.runAllTimersAsync();
    expect((await updates).map(({ value, attempts }) => [value.n, attempts])).toEqual([[101, 2], [102, 2], [103, 2]]);
    expect(service.operations).toEqual(["download", "upload", "download", "upload"]);
  });

  it("gives up only for the caller whose attempts are over", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.putKeeping({ n: 100 })));
    const impatient = rejection(optimisticUpdate<Counter>(blob, increment, { maxAttempts: 1 }));
    const patient = optimisticUpdate<Counter>(blob, increment);
    await vi.runAllTimersAsync();
    expect(await impatient).toBeInstanceOf(ConflictError);
    expect((await patient).value).toEqual({ n: 101 });
  });

  describe("what it leaves behind", () => {
    it("no listener on the caller's signal, however the call ends", async () => {
      const { service, blob } = counterBlob();
      const controller = countingController();
      const options = { abortSignal: controller.signal };
      await optimisticUpdate<Counter>(blob, increment, options);
      await optimisticUpdate<Counter>(blob, () => undefined, options);
      await rejection(
        optimisticUpdate<Counter>(
          blob,
          () => {
            throw new Error("no");
          },
          options,
        ),
      );
      service.next("upload", before(() => blob.putKeeping({ n: 5 })));
      const raced = optimisticUpdate<Counter>(blob, increment, options);
      await vi.runAllTimersAsync();
      await raced;
      service.next("download", hang, hang, hang, hang);
      const late = rejection(optimisticUpdate<Counter>(blob, increment, { ...options, timeoutInMs: 10 }));
      await vi.advanceTimersByTimeAsync(10);
      await late;
      expect(controller.listeners()).toBe(0);
      service.next("download", hang);
      const aborted = rejection(optimisticUpdate<Counter>(blob, increment, options));
      await vi.advanceTimersByTimeAsync(0);
      expect(controller.listeners()).toBe(1);
      controller.abort();
      await aborted;
      expect(controller.listeners()).toBe(0);
    });

    it("no group: the map of their owner is empty after 1,000 targets", async () => {
      const service = new FakeService();
      const update = (i: number): Promise<unknown> => {
        const blob = new FakeBlockBlob(service, { url: `https://account.blob.core.windows.net/docs/${i}` });
        blob.put({ n: 0 });
        return optimisticUpdate<Counter>(blob, increment);
      };
      const sets = vi.spyOn(Map.prototype, "set");
      const first = update(0);
      const at = sets.mock.calls.findIndex(([key]) => String(key).includes("jsonBlob"));
      const groups = sets.mock.contexts[at] as Map<unknown, unknown>;
      sets.mockRestore();
      await first;
      for (let i = 1; i < 1_000; i += 100) {
        const some = Promise.all(Array.from({ length: 100 }, (_, j) => update(i + j)));
        expect(groups.size).toBe(100);
        await some;
        service.resources.clear();
      }
      expect(groups.size).toBe(0);
    });
  });
});
