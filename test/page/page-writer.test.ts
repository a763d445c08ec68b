import { describe, expect, it, vi } from "vitest";

import { claimPages } from "../../src/index.js";
import { FakePageBlob } from "../fakes/fake-page-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { deferred } from "../fakes/deferred.js";
import { answer, before, gate, ghost, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";

function disk(sizeInBytes?: number): { service: FakeService; blob: FakePageBlob } {
  const service = new FakeService();
  return { service, blob: new FakePageBlob(service, sizeInBytes) };
}

const mebibyte = 1024 * 1024;

const page = (value: number, count = 1): Uint8Array => new Uint8Array(count * 512).fill(value);

/** A request that the client gives up when its call ends, and that arrives when the test says so. */
function straggler(): { readonly fault: Fault; readonly sent: Promise<void>; arrive(): void } {
  const late = ghost();
  const sent = deferred();
  return {
    fault: (exchange) => {
      sent.resolve();
      // Records the request in the ghost, which then waits for the abort instead of failing at once.
      return late.fault({ ...exchange, sendIntoTheVoid: () => hang(exchange) as Promise<never> });
    },
    sent: sent.promise,
    arrive: () => late.arrive(),
  };
}

describe("a claim", () => {
  it("costs two requests and raises the number", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    expect(writer.sequenceNumber).toBe(blob.stored?.number);
    const successor = await claimPages(blob);
    expect(successor.sequenceNumber).toBeGreaterThan(writer.sequenceNumber);
    expect(service.operations).toEqual(Array(4).fill("updateSequenceNumber"));
  });

  it("gets a number that no writer of a deleted blob of the same name had", async () => {
    const { blob } = disk();
    const old = await claimPages(blob);
    blob.recreate();
    const successor = await claimPages(blob);
    await successor.write(0, page(2));
    expect(await rejection(old.write(0, page(1)))).toMatchObject({ name: "FencedError", fencedBy: successor.sequenceNumber });
    expect(blob.pages[0]).toBe(2);
  });

  it("gets a number that no writer had since a snapshot to which the blob was restored", async () => {
    const { blob } = disk();
    const now = vi.spyOn(Date, "now").mockReturnValue(1_000_000);
    await claimPages(blob);
    const snapshot = blob.stored?.number;
    now.mockReturnValue(1_000_001);
    const old = await claimPages(blob);
    blob.recreate(snapshot);
    now.mockReturnValue(1_000_002);
    await claimPages(blob);
    now.mockRestore();
    expect(await rejection(old.write(0, page(1)))).toMatchObject({ name: "FencedError" });
  });

  it("gets numbers that are safe integers, above those that the blob has", async () => {
    const { blob } = disk();
    blob.recreate(2 ** 52);
    expect((await claimPages(blob)).sequenceNumber).toBe(2 ** 52 + 1);
    blob.recreate(2 ** 53);
    expect(await rejection(claimPages(blob))).toBeInstanceOf(RangeError);
    blob.recreate();
    const { sequenceNumber } = await claimPages(blob);
    expect(Number.isSafeInteger(sequenceNumber)).toBe(true);
    expect(new Date(sequenceNumber / 1_024).getFullYear()).toBe(new Date().getFullYear());
  });

  it("outlasts swallowed requests", async () => {
    const { service, blob } = disk();
    service.next("updateSequenceNumber", hang, pass, hang);
    const writer = await claimPages(blob, { tryTimeoutInMs: 20 });
    await writer.write(0, page(1));
    expect(blob.pages[0]).toBe(1);
  });

  it("gives no two writers the same number, also when answers are lost", async () => {
    const { service, blob } = disk();
    service.next("updateSequenceNumber", loseAnswer, loseAnswer);
    const writers = await Promise.all([claimPages(blob), claimPages(blob), claimPages(blob)]);
    expect(new Set(writers.map((writer) => writer.sequenceNumber)).size).toBe(3);
  });

  it.each([hang, hangAfterCommit])("is tried again if it gets no response within tryTimeoutInMs (%#)", async (fault) => {
    const { service, blob } = disk();
    service.next("updateSequenceNumber", fault);
    const writer = await claimPages(blob, { tryTimeoutInMs: 20 });
    expect(service.count("updateSequenceNumber")).toBe(3); // a claim sends two, and one of them twice
    expect(writer.sequenceNumber).toBe(blob.stored?.number);
    await writer.write(0, page(1));
    expect(blob.pages[0]).toBe(1);
  });

  it("of a blob that is not there is a TargetNotFoundError", async () => {
    const { service, blob } = disk();
    service.resources.clear();
    expect(await rejection(claimPages(blob))).toMatchObject({ name: "TargetNotFoundError" });
  });
});

describe("a writer", () => {
  it("writes and clears, for one request each", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    await writer.write(512, page(7, 2));
    await writer.clear(1024, 512);
    expect(blob.pages.slice(0, 4)).toEqual([0, 7, 0, 0]);
    expect(service.operations.slice(2)).toEqual(["uploadPages", "clearPages"]);
  });

  it("that has a successor is fenced by the service, for good", async () => {
    const { service, blob } = disk();
    const old = await claimPages(blob);
    const successor = await claimPages(blob);
    const error = await rejection(old.write(0, page(1)));
    expect(error).toMatchObject({ name: "FencedError", epoch: old.sequenceNumber, fencedBy: successor.sequenceNumber });
    expect(error.message).toContain("Nothing was written");
    const requests = service.requests.length;
    expect(await rejection(old.clear(0, 512))).toBe(error);
    expect(service.requests).toHaveLength(requests);
    await successor.write(0, page(2));
    expect(blob.pages[0]).toBe(2);
  });

  it("does not say that nothing was written if an earlier try may have been", async () => {
    const { service, blob } = disk();
    const old = await claimPages(blob);
    service.next("uploadPages", async (exchange) => {
      await exchange.send();
      await claimPages(blob);
      return exchange.send();
    });
    expect((await rejection(old.write(0, page(1)))).message).toContain("may have been written");
  });

  it.each([hangAfterCommit, hang])("does not say so either if a try before that got no response", async (fault) => {
    const { service, blob } = disk();
    const old = await claimPages(blob);
    service.next("uploadPages", fault);
    service.next("getProperties", before(() => claimPages(blob)));
    const error = await rejection(old.write(0, page(1), { tryTimeoutInMs: 20 }));
    expect(error).toMatchObject({ name: "FencedError", committed: "unknown", writtenBytes: 0 });
    expect(error.message).not.toContain("Nothing was written");
    // The next write sends nothing.
    expect(await rejection(old.write(0, page(1)))).toMatchObject({ name: "FencedError", committed: false });
  });

  it("keeps its own late write from undoing a newer one", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const number = writer.sequenceNumber;
    const late = ghost();
    service.next("uploadPages", late.fault);
    await rejection(writer.write(0, page(1)));
    await writer.write(0, page(2));
    late.arrive();
    expect(blob.pages[0]).toBe(2);
    expect(writer.sequenceNumber).toBeGreaterThan(number);
    expect(service.operations.slice(2)).toEqual(["uploadPages", "getProperties", "updateSequenceNumber", "uploadPages"]);
  });

  it.each([
    { what: "in the same moment", pauses: 0 },
    { what: "one microtask later", pauses: 1 },
    { what: "after some time", pauses: 50 },
  ])("does not let a write that its caller aborted undo one that follows $what", async ({ pauses }) => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const number = writer.sequenceNumber;
    const late = straggler();
    service.next("uploadPages", late.fault);
    const controller = new AbortController();
    const aborted = rejection(writer.write(0, page(1), { abortSignal: controller.signal }));
    await late.sent;
    controller.abort(new Error("enough"));
    for (let n = 0; n < pauses; n++) await Promise.resolve();
    await writer.write(0, page(2));
    late.arrive();
    expect((await aborted).message).toBe("enough");
    expect(blob.pages[0]).toBe(2);
    expect(writer.sequenceNumber).toBeGreaterThan(number);
  });

  it("does not let a write that took too long undo one that follows its rejection immediately", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const late = straggler();
    service.next("uploadPages", late.fault);
    await expect(writer.write(0, page(1), { timeoutInMs: 20, tryTimeoutInMs: 1_000 })).rejects.toMatchObject({ name: "OperationTimeoutError" });
    await writer.write(0, page(2));
    late.arrive();
    expect(blob.pages[0]).toBe(2);
  });

  it("sends again what got no response within tryTimeoutInMs, and rejects the try that was given up", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const late = straggler();
    service.next("uploadPages", late.fault);
    await writer.write(0, page(1), { tryTimeoutInMs: 20 });
    await writer.write(0, page(2));
    late.arrive();
    expect(blob.pages[0]).toBe(2);
    expect(service.operations.slice(2)).toEqual(["uploadPages", "getProperties", "updateSequenceNumber", "uploadPages", "uploadPages"]);
  });

  it.each(["getProperties", "updateSequenceNumber"])("outlasts a swallowed %s of its raise", async (operation) => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", hang);
    service.next(operation, hang);
    await writer.write(0, page(1), { tryTimeoutInMs: 20 });
    expect(blob.pages[0]).toBe(1);
    expect(blob.stored?.number).toBe(writer.sequenceNumber);
  });

  it("writes to the same pages in the order of the calls, and to other pages at the same time", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const number = writer.sequenceNumber;
    const held = gate();
    service.next("uploadPages", held.fault);
    const first = writer.write(0, page(1, 2));
    await held.reached;
    const second = writer.write(512, page(2, 2));
    await writer.write(2048, page(9));
    expect(service.count("uploadPages")).toBe(2);
    held.open();
    await Promise.all([first, second]);
    expect(blob.pages.slice(0, 5)).toEqual([1, 2, 2, 0, 9]);
    expect(writer.sequenceNumber).toBe(number);
  });

  it("does not wait for a write of the same pages longer than it has time", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", hang);
    const controller = new AbortController();
    const first = rejection(writer.write(0, page(1), { abortSignal: controller.signal }));
    const error = await rejection(writer.write(0, page(2), { timeoutInMs: 20 }));
    expect(error).toMatchObject({ name: "OperationTimeoutError", writtenBytes: 0, committed: false });
    expect(error.message).toContain("No request was sent");
    controller.abort();
    await first;
  });

  it("says how much is written when the time is over in the middle of several requests", async () => {
    const { service, blob } = disk(12 * mebibyte);
    const writer = await claimPages(blob);
    service.next("uploadPages", pass, pass, hang);
    const error = await rejection(writer.write(0, new Uint8Array(12 * mebibyte).fill(1), { timeoutInMs: 200, tryTimeoutInMs: 1_000 }));
    expect(error).toMatchObject({ name: "OperationTimeoutError", writtenBytes: 8 * mebibyte, committed: "unknown" });
    expect(error.message).not.toContain("Nothing was written");
    expect(error.message).toContain("8388608 of 12582912 bytes are written");
  });

  it("says how much is written when a successor takes over in the middle of several requests", async () => {
    const { service, blob } = disk(12 * mebibyte);
    const writer = await claimPages(blob);
    service.next("uploadPages", pass, before(() => claimPages(blob)));
    const error = await rejection(writer.write(0, new Uint8Array(12 * mebibyte).fill(1)));
    expect(error).toMatchObject({ name: "FencedError", writtenBytes: 4 * mebibyte, committed: "unknown" });
    expect(error.message).not.toContain("Nothing was written");
    const next = await rejection(writer.write(0, page(1)));
    expect(next).toMatchObject({ name: "FencedError", committed: false });
    expect(next).not.toHaveProperty("writtenBytes");
  });

  it("raises its number each time", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    for (const value of [1, 3, 5]) {
      const number = writer.sequenceNumber;
      const late = ghost();
      service.next("uploadPages", late.fault);
      await rejection(writer.write(0, page(value)));
      await writer.write(0, page(value + 1));
      late.arrive();
      expect(blob.pages[0]).toBe(value + 1);
      expect(writer.sequenceNumber).toBeGreaterThan(number);
    }
  });

  it.each([
    { what: "loses its response", fault: loseAnswerForGood },
    { what: "is lost", fault: loseRequest },
  ])("says that it does not know if its request $what, and the client does not retry", async ({ fault }) => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    for (const call of [() => writer.write(512, page(1)), () => writer.clear(512, 512)]) {
      service.next(service.operations.includes("uploadPages") ? "clearPages" : "uploadPages", fault);
      const error = await rejection(call());
      expect(error).toMatchObject({ name: "CommitUnknownError", committed: "unknown", attempts: 1, cause: { code: "ECONNRESET" } });
      expect(error.message).toContain("which does no harm");
    }
    await writer.write(512, page(3));
    expect(blob.pages[1]).toBe(3);
  });

  it("says that it does not know if a later try is rejected because of a lease", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", hangAfterCommit, answer(412, "LeaseIdMissing"));
    expect(await rejection(writer.write(0, page(1), { tryTimeoutInMs: 20 }))).toMatchObject({ name: "CommitUnknownError", committed: "unknown", cause: { name: "LeaseUnavailableError" } });
    expect(blob.pages[0]).toBe(1);
  });

  it("raises its number also after a re-send of the SDK that went well, and only then", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", loseAnswer);
    await writer.write(0, page(1));
    expect(service.count("any")).toBe(3);
    await writer.write(0, page(2));
    await writer.write(0, page(3));
    expect(service.operations.slice(3)).toEqual(["getProperties", "updateSequenceNumber", "uploadPages", "uploadPages"]);
  });

  it.each([
    { what: "the answer to the raise is lost", fault: loseAnswer },
    { what: "it is lost for good", fault: loseAnswerForGood },
    { what: "the raise itself is lost", fault: loseRequest },
  ])("goes on when $what", async ({ fault }) => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", loseAnswer);
    await writer.write(0, page(1));
    service.next("updateSequenceNumber", fault);
    await writer.write(0, page(2));
    expect(blob.pages[0]).toBe(2);
    expect(blob.stored?.number).toBe(writer.sequenceNumber);
  });

  it("is not fenced by its own raise whose caller gave up before the answer", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const number = writer.sequenceNumber;
    service.next("uploadPages", loseAnswer);
    await writer.write(0, page(1));
    service.next("updateSequenceNumber", hangAfterCommit);
    const { abort, signal } = countingController();
    const gone = rejection(writer.write(0, page(2), { abortSignal: signal }));
    await vi.waitFor(() => expect(blob.stored?.number).toBeGreaterThan(number));
    abort(new Error("enough"));
    expect((await gone).message).toBe("enough");
    await writer.write(0, page(3));
    expect(blob.pages[0]).toBe(3);
    expect(blob.stored?.number).toBe(writer.sequenceNumber);
  });

  it("never takes a successor's number for its own raise", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", loseAnswer);
    await writer.write(0, page(1));
    service.next("updateSequenceNumber", before(() => claimPages(blob)));
    expect(await rejection(writer.write(0, page(2)))).toMatchObject({ name: "FencedError", epoch: writer.sequenceNumber, fencedBy: blob.stored?.number });
    expect(blob.pages[0]).toBe(1);
  });

  it("sends again what was on its way while another write raised the number", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const held = gate();
    service.next("uploadPages", held.fault, loseAnswer);
    const slow = writer.write(0, page(1));
    await held.reached;
    await writer.write(512, page(2));
    await writer.write(512, page(3));
    held.open();
    await slow;
    expect(blob.pages.slice(0, 2)).toEqual([1, 3]);
  });

  it("lets the others raise the number if the one that went ahead gives up", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", loseAnswer);
    await writer.write(0, page(1));
    service.next("getProperties", hang);
    const { abort, signal, listeners } = countingController();
    const gone = rejection(writer.write(0, page(2), { abortSignal: signal }));
    const stays = writer.write(512, page(3));
    await new Promise(setImmediate);
    abort(new Error("enough"));
    expect((await gone).message).toBe("enough");
    await stays;
    expect(blob.pages.slice(0, 2)).toEqual([1, 3]);
    expect(listeners()).toBe(0);
  });

  it("passes on what has nothing to do with fences", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", answer(403, "AuthorizationFailure"), answer(412, "LeaseIdMissing"));
    expect(await rejection(writer.write(0, page(1)))).toMatchObject({ statusCode: 403 });
    expect(await rejection(writer.write(0, page(1)))).toMatchObject({ name: "LeaseUnavailableError" });
    await writer.write(0, page(1));
  });
});

describe("a write that the service rejects", () => {
  it.each(["PendingCopyOperation", "ContainerBeingDeleted"])("for now is sent again, and so is a claim: %s", async (code) => {
    const { service, blob } = disk();
    service.next("updateSequenceNumber", answer(409, code), pass, answer(409, code));
    const writer = await claimPages(blob);
    service.next("uploadPages", answer(409, code));
    await writer.write(0, page(1));
    expect(blob.pages[0]).toBe(1);
  });

  it.each([409, 412])("with %i and an unknown code is sent again if its writer still has the number", async (status) => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", answer(status, "SomethingNew"));
    await writer.write(0, page(1));
    expect(blob.pages[0]).toBe(1);
  });

  it("with an unknown code is fenced if another writer has claimed the blob", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const successor = await claimPages(blob);
    service.next("uploadPages", answer(412, "SomethingNew"));
    expect(await rejection(writer.write(0, page(1)))).toMatchObject({ name: "FencedError", fencedBy: successor.sequenceNumber });
  });

  it("with an unknown code again and again is the service's own error", async () => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    service.next("uploadPages", ...Array.from({ length: 10 }, () => answer(409, "SomethingNew")));
    expect(await rejection(writer.write(0, page(1)))).toMatchObject({ statusCode: 409, code: "SomethingNew" });
    expect(service.operations.filter((operation) => operation === "uploadPages").length).toBeLessThan(6);
  });
});

describe("bad input is refused before any request", () => {
  it.each([
    { what: "an offset within a page", write: [100, page(1)] },
    { what: "half a page", write: [0, new Uint8Array(256)] },
    { what: "no page", write: [0, new Uint8Array(0)] },
    { what: "a negative offset", write: [-512, page(1)] },
  ])("$what", async ({ write }) => {
    const { service, blob } = disk();
    const writer = await claimPages(blob);
    const [offset, data] = write as [number, Uint8Array];
    await expect(writer.write(offset, data)).rejects.toBeInstanceOf(RangeError);
    await expect(writer.clear(offset, data.length)).rejects.toBeInstanceOf(RangeError);
    expect(service.requests).toHaveLength(2);
  });

  it("what is no page blob, and what are no bytes", async () => {
    const { blob } = disk();
    await expect(claimPages({} as never)).rejects.toBeInstanceOf(TypeError);
    await expect(claimPages(undefined as never)).rejects.toBeInstanceOf(TypeError);
    await expect((await claimPages(blob)).write(0, "text" as never)).rejects.toBeInstanceOf(TypeError);
  });
});
