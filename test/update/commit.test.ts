import { describe, expect, it, vi } from "vitest";
import { blobHttpHeaders, blobTags, tableEntity } from "../../src/index.js";
import type { BlobUploadOptions } from "../../src/clients.js";
import { commit } from "../../src/update/commit.js";
import type { CommitOutcome } from "../../src/update/commit.js";
import { journalAfter, newWriteId, parseJournal } from "../../src/target/journal.js";
import { adapterOf } from "../../src/target/target.js";
import type { Snapshot, ServiceAdapter } from "../../src/target/target.js";
import type { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { after, answer, before, busy, busyUntil, failAfterCommit, gate, ghost, hang, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterAdapter, counterBlob, requestContext } from "../support/counter.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

type Ours = ServiceAdapter<{ n: number }, string>;

async function setUp(): Promise<{ service: FakeService; blob: FakeBlockBlob; adapter: Ours; base: Snapshot<string> }> {
  const { service, blob } = counterBlob();
  const adapter = counterAdapter(blob) as unknown as Ours;
  // One journaled write first, so that there is a lineage.
  const first = (await adapter.read(requestContext()))!;
  await adapter.write(first, '{"n":1}', journalAfter(first, newWriteId()), requestContext());
  const base = (await adapter.read(requestContext()))!;
  service.requests.length = 0;
  return { service, blob, adapter, base };
}

function update(adapter: Ours, base: Snapshot<string> | undefined, journaling = true): Promise<CommitOutcome<string>> {
  return inFakeTime(commit(adapter, { base, draft: '{"n":2}', journaling }, requestContext()));
}

/** `times` journaled writes of others. */
async function othersWrite(adapter: Ours, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    const base = (await adapter.read(requestContext()))!;
    await adapter.write(base, `{"n":${100 + i}}`, journalAfter(base, newWriteId()), requestContext());
  }
}

/** What is done without being part of the story that a test counts. */
function unseen(service: FakeService, fn: () => Promise<void>): () => Promise<void> {
  return async () => {
    const seen = service.requests.length;
    await fn();
    service.requests.length = seen;
  };
}

describe("a write whose answer arrived", () => {
  it("landed, with one request", async () => {
    const { service, blob, adapter, base } = await setUp();
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: false, found: { etag: blob.stored?.etag } });
    expect(service.operations).toEqual(["upload"]);
  });

  it("lost a race for certain, and nothing is read back", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.putKeeping({ n: 9 });
    const outcome = await update(adapter, base);
    expect(outcome).toMatchObject({ kind: "conflict", error: { statusCode: 412 } });
    expect(outcome).not.toHaveProperty("found");
    expect(service.operations).toEqual(["upload"]);
  });

  it("lost a race to a delete", async () => {
    const { blob, adapter, base } = await setUp();
    blob.drop();
    expect((await update(adapter, base)).kind).toBe("conflict");
  });

  it("lost a race to another create", async () => {
    const { adapter } = await setUp();
    expect(await update(adapter, undefined)).toMatchObject({ kind: "conflict", error: { code: "BlobAlreadyExists" } });
  });

  it("was refused for good, and is not sent again", async () => {
    const { service, adapter, base } = await setUp();
    service.next("upload", answer(403, "AuthorizationFailure"));
    expect(await update(adapter, base)).toMatchObject({ kind: "rejected", error: { statusCode: 403 } });
    expect(service.count()).toBe(1);
  });

  it("was refused because of a lease", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.stored!.leaseId = "somebody";
    expect(await update(adapter, base)).toMatchObject({ kind: "rejected", error: { code: "LeaseIdMissing" } });
    expect(service.count()).toBe(1);
  });

  it("is refused if nothing could be sent because of a wrong argument", async () => {
    const { service, blob } = counterBlob();
    const adapter = adapterOf(blobHttpHeaders(blob))!;
    const outcome = await commit(adapter, { base: undefined, draft: {}, journaling: true }, requestContext());
    expect(outcome).toMatchObject({ kind: "rejected", error: expect.any(TypeError) as unknown });
    expect(service.count()).toBe(0);
  });
});

describe("a write whose answer was lost", () => {
  const lost: [string, Fault][] = [
    ["and that the SDK sent again", loseAnswer],
    ["and that the SDK gave up", loseAnswerForGood],
    ["behind a 500", failAfterCommit],
  ];
  for (const [how, fault] of lost) {
    it(`landed, if what is stored is that write ${how}`, async () => {
      const { service, blob, adapter, base } = await setUp();
      service.next("upload", fault);
      expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: false, found: { etag: blob.stored?.etag, raw: '{"n":2}' } });
      expect(service.operations).toEqual(["upload", "download"]);
    });

    it(`landed, if it is found below 31 writes of others ${how}`, async () => {
      const { service, adapter, base } = await setUp();
      service.next("upload", after(unseen(service, () => othersWrite(adapter, 31)), fault));
      expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: true });
      expect(service.count("upload")).toBe(1);
    });

    it(`is unknown below 32 writes of others ${how}`, async () => {
      const { service, adapter, base } = await setUp();
      service.next("upload", after(unseen(service, () => othersWrite(adapter, 32)), fault));
      expect((await update(adapter, base)).kind).toBe("unknown");
    });

    it(`did not land, if another write is in its place ${how}`, async () => {
      const { service, adapter, base } = await setUp();
      await othersWrite(adapter, 1);
      service.requests.length = 0;
      service.next("upload", fault);
      expect(await update(adapter, base)).toMatchObject({ kind: "conflict", found: { raw: '{"n":100}' } });
      expect(service.operations).toEqual(["upload", "download"]);
    });
  }

  it("landed on what had no journal yet", async () => {
    const { service, blob } = counterBlob();
    const adapter = counterAdapter(blob) as unknown as Ours;
    const base = await adapter.read(requestContext());
    service.next("upload", loseAnswer);
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: false });
  });

  for (const [how, fault] of [["lost on its way", loseRequest], ["answered with 503", busy]] as const) {
    it(`is sent again with the same id if the target has not moved, and has one effect (${how})`, async () => {
      const { service, blob, adapter, base } = await setUp();
      const upload = vi.spyOn(blob, "upload");
      service.next("upload", fault, fault);
      expect(await update(adapter, base)).toMatchObject({ kind: "committed" });
      expect(service.operations).toEqual(["upload", "download", "upload", "download", "upload"]);
      expect(new Set(upload.mock.calls.map(([, , options]) => options?.metadata?.["asc_journal"])).size).toBe(1);
      expect(parseJournal(blob.metadata["asc_journal"])?.seq).toBe(2);
    });
  }

  describe("of a record that other processes write, too", () => {
    /** The base as another process has written it. */
    const byOther = (base: Snapshot<string>): Snapshot<string> => ({ ...base, journal: { ...base.journal!, entries: ["of-other-1234", ...base.journal!.entries] } });
    const cases = [
      ["the last version is that of another process", byOther, false],
      ["another client was first a moment ago", (base: Snapshot<string>) => base, true],
    ] as const;

    it.each(cases)("is not left to the SDK to be sent again, while the journal fills up with other writes: %s", async (_, baseOf, isContended) => {
      const { service, adapter, base } = await setUp();
      const plan = { base: baseOf(base), draft: '{"n":2}', journaling: true, isContended };
      service.next("upload", loseAnswer);
      expect(await inFakeTime(commit(adapter, plan, requestContext()))).toMatchObject({ kind: "committed", superseded: false });
      expect(service.operations).toEqual(["upload", "download"]);
    });

    it.each([3_000, 20_000])("waits for a service that rejects writes as busy for %i ms, with fewer than six requests a second", async (busyInMs) => {
      const { service, adapter, base } = await setUp();
      service.each("upload", busyUntil(performance.now() + busyInMs));
      const plan = { base, draft: '{"n":2}', journaling: true, isContended: true };
      expect(await inFakeTime(commit(adapter, plan, requestContext()))).toMatchObject({ kind: "committed", superseded: false });
      expect(service.requests.length).toBeLessThan(25 + (busyInMs / 1_000) * 6);
    });

    it("gives up a write that the SDK would repeat for longer than a call usually has", async () => {
      const { service, adapter, base } = await setUp();
      service.each("upload", busyUntil(Infinity));
      const plan = { base, draft: '{"n":2}', journaling: true, isContended: true };
      expect((await inFakeTime(commit(adapter, plan, requestContext()))).kind).toBe("unknown");
      expect(service.count("upload")).toBe(101);
    });
  });

  it("has one effect if the first try arrives only after the read-back", async () => {
    const { service, blob, adapter, base } = await setUp();
    const late = ghost();
    service.next("upload", late.fault, before(() => late.arrive()));
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: false });
    expect(service.operations).toEqual(["upload", "download", "upload", "download"]);
    expect(parseJournal(blob.metadata["asc_journal"])?.seq).toBe(2);
  });

  it("has one effect if the first try arrives after the second", async () => {
    const { service, blob, adapter, base } = await setUp();
    const late = ghost();
    service.next("upload", late.fault, after(() => late.arrive()));
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", found: { etag: blob.stored?.etag } });
    expect(parseJournal(blob.metadata["asc_journal"])?.seq).toBe(2);
  });

  it("is unknown if it does not get through in eleven tries", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("upload", ...Array<Fault>(20).fill(loseRequest));
    expect((await update(adapter, base)).kind).toBe("unknown");
    expect(service.count("upload")).toBe(11);
    expect(blob.json).toEqual({ n: 1 });
  });

  it("is unknown if reading back fails, and says both errors", async () => {
    const { service, adapter, base } = await setUp();
    service.next("upload", loseAnswerForGood);
    service.next("download", answer(403, "AuthorizationFailure"));
    const outcome = await update(adapter, base);
    expect(outcome.kind).toBe("unknown");
    expect((outcome as { error: AggregateError }).error.errors).toMatchObject([{ code: "ECONNRESET" }, { statusCode: 403 }]);
  });

  it("is unknown if it was aborted, and nothing more is sent", async () => {
    const { service, adapter, base } = await setUp();
    const controller = new AbortController();
    service.next("upload", hang);
    const outcome = commit(adapter, { base, draft: '{"n":2}', journaling: true }, requestContext({ abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(0);
    controller.abort();
    expect((await outcome).kind).toBe("unknown");
    expect(service.count()).toBe(1);
  });

  it("is unknown if it is aborted while it waits to send again", async () => {
    const { service, adapter, base } = await setUp();
    const controller = new AbortController();
    service.next("upload", loseRequest);
    vi.spyOn(Math, "random").mockReturnValueOnce(1);
    const outcome = commit(adapter, { base, draft: '{"n":2}', journaling: true }, requestContext({ abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(1);
    expect(service.count()).toBe(2);
    controller.abort();
    expect((await outcome).kind).toBe("unknown");
    expect(service.count()).toBe(2);
  });

  it("is unknown below a writer that drops the journal", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("upload", after(() => blob.put({ n: 50 }), loseAnswer));
    expect((await update(adapter, base)).kind).toBe("unknown");
  });

  it("is unknown if a writer that drops the journal came before it", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.put({ n: 50 });
    service.next("upload", loseAnswer);
    expect((await update(adapter, base)).kind).toBe("unknown");
  });

  it("is unknown if the target is gone", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("upload", after(() => blob.drop(), loseAnswer));
    expect((await update(adapter, base)).kind).toBe("unknown");
  });

  it("is unknown if the target was deleted and made anew", async () => {
    const { service, blob, adapter, base } = await setUp();
    const remade = unseen(service, async () => {
      blob.drop();
      await adapter.create('{"n":2}', journalAfter(undefined, newWriteId()), requestContext());
    });
    service.next("upload", after(remade, loseAnswer));
    expect((await update(adapter, base)).kind).toBe("unknown");
  });

  it("landed and was superseded, below a writer that keeps the journal", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("upload", after(() => blob.putKeeping({ n: 50 }), loseAnswer));
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: true });
  });

  it("is unknown if a writer that keeps the journal has changed the content: it may have read the journal before this write, and the content after it", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.putKeeping({ n: 50 });
    service.next("upload", loseAnswer);
    expect(await update(adapter, base)).toMatchObject({ kind: "unknown", found: { raw: '{"n":50}' } });
  });

  it("did not land, if such a writer has changed something else", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.putMetadata({ ...blob.metadata, colour: "red" });
    service.next("upload", loseAnswer);
    expect((await update(adapter, base)).kind).toBe("conflict");
  });

  it("is never guessed from equal content: it may be this write, with a journal that another client has written back", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.putKeeping({ n: 2 });
    service.next("upload", loseAnswer);
    expect((await update(adapter, base)).kind).toBe("unknown");
  });

  it("is unknown without a journal, unless nothing moved", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("upload", loseAnswer);
    expect((await update(adapter, base, false)).kind).toBe("unknown");
    const now = await adapter.read(requestContext());
    service.next("upload", loseRequest);
    expect((await update(adapter, now, false)).kind).toBe("committed");
    expect(blob.json).toEqual({ n: 2 });
  });
});

describe("a create whose answer was lost", () => {
  async function nothing(): Promise<Omit<Awaited<ReturnType<typeof setUp>>, "base">> {
    const { service, blob, adapter } = await setUp();
    blob.drop();
    return { service, blob, adapter };
  }

  it("committed", async () => {
    const { service, blob, adapter } = await nothing();
    service.next("upload", loseAnswer);
    expect(await update(adapter, undefined)).toMatchObject({ kind: "committed", superseded: false, found: { etag: blob.stored?.etag } });
  });

  it("landed, however many journaled writes came on top", async () => {
    const { service, adapter } = await nothing();
    service.next("upload", after(unseen(service, () => othersWrite(adapter, 40)), loseAnswer));
    expect(await update(adapter, undefined)).toMatchObject({ kind: "committed", superseded: true });
  });

  it("is unknown if there is nothing: another client may have deleted what it created", async () => {
    const { service, blob, adapter } = await nothing();
    service.next("upload", after(() => blob.drop(), loseAnswerForGood));
    expect((await update(adapter, undefined)).kind).toBe("unknown");
    expect(blob.stored).toBeUndefined();
    service.next("upload", loseRequest);
    expect((await update(adapter, undefined)).kind).toBe("unknown");
  });

  it("is not sent again by the SDK either", async () => {
    const { service, blob, adapter } = await nothing();
    service.next("upload", after(() => blob.drop(), loseAnswer));
    expect((await update(adapter, undefined)).kind).toBe("unknown");
    expect(blob.stored).toBeUndefined();
  });

  it("is sent again if the callers accept that, also when the first try arrives late", async () => {
    const { service, blob, adapter } = await nothing();
    const late = ghost();
    service.next("upload", late.fault, before(() => late.arrive()));
    const plan = { base: undefined, draft: '{"n":2}', journaling: true, mayRepeat: true };
    expect(await inFakeTime(commit(adapter, plan, requestContext()))).toMatchObject({ kind: "committed" });
    expect(parseJournal(blob.metadata["asc_journal"])?.seq).toBe(1);
  });

  it("is sent again after a 503 ServerBusy, which proves that it was not carried out", async () => {
    const { service, adapter } = await nothing();
    service.next("upload", busy, busy);
    expect(await update(adapter, undefined)).toMatchObject({ kind: "committed" });
  });

  it("is unknown after a 503 to a client that does not show how often it has sent: the first send may have been carried out", async () => {
    const { service, blob, adapter } = await nothing();
    service.next("upload", async (exchange) => {
      exchange.serve();
      blob.drop();
      throw exchange.error(503, "ServerBusy");
    });
    expect((await update(adapter, undefined)).kind).toBe("unknown");
    expect(blob.stored).toBeUndefined();
  });

  it("is unknown if another create began the journal: it may have followed a delete of this one", async () => {
    const { service, adapter } = await nothing();
    await adapter.create('{"n":2}', journalAfter(undefined, newWriteId()), requestContext());
    await othersWrite(adapter, 3);
    service.next("upload", loseRequest);
    expect((await update(adapter, undefined)).kind).toBe("unknown");
  });

  it("is unknown below a writer that drops the journal", async () => {
    const { service, blob, adapter } = await nothing();
    service.next("upload", after(() => blob.put({ n: 3 }), loseAnswer));
    expect((await update(adapter, undefined)).kind).toBe("unknown");
  });

  it("is unknown below a writer that drops the journal and one that begins it anew", async () => {
    const { service, blob, adapter } = await nothing();
    const others = unseen(service, async () => {
      blob.put({ n: 3 });
      await othersWrite(adapter, 1);
    });
    service.next("upload", after(others, loseAnswer));
    expect((await update(adapter, undefined)).kind).toBe("unknown");
  });

  it("lands in a table, too, where the second try is answered 409", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    const adapter = adapterOf(tableEntity(table, "p", "r"))!;
    service.next("createEntity", loseAnswer);
    const draft = adapter.encode({ partitionKey: "p", rowKey: "r", n: 1 }, undefined);
    const outcome = await commit(adapter, { base: undefined, draft, journaling: true }, requestContext());
    expect(outcome).toMatchObject({ kind: "committed", superseded: false });
    expect(service.operations).toEqual(["createEntity", "getEntity"]);
  });
});

describe("a delete whose answer was lost", () => {
  function deletion(adapter: Ours, base: Snapshot<string>): Promise<CommitOutcome<string>> {
    return inFakeTime(commit(adapter, { base, draft: undefined, journaling: true }, requestContext()));
  }

  it("is unknown if it is gone (the SDK's second try was answered 404): another client may have deleted it", async () => {
    const { service, adapter, base } = await setUp();
    service.next("delete", loseAnswer);
    expect(await deletion(adapter, base)).toMatchObject({ kind: "unknown", found: null });
    expect(service.operations).toEqual(["delete", "download"]);
  });

  it("landed if it is gone, if the callers accept that it was another client", async () => {
    const { service, adapter, base } = await setUp();
    service.next("delete", loseAnswer);
    const outcome = await inFakeTime(commit(adapter, { base, draft: undefined, journaling: true, mayRepeat: true }, requestContext()));
    expect(outcome).toEqual({ kind: "committed", found: null, superseded: false });
  });

  it("is sent again if the target has not moved", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("delete", loseRequest);
    expect((await deletion(adapter, base)).kind).toBe("committed");
    expect(blob.stored).toBeUndefined();
  });

  it("did not land if the history goes on", async () => {
    const { service, adapter, base } = await setUp();
    await othersWrite(adapter, 1);
    service.next("delete", loseAnswer);
    expect(await deletion(adapter, base)).toMatchObject({ kind: "conflict", found: { raw: '{"n":100}' } });
  });

  it("is unknown if something of another history is there", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("delete", after(() => blob.put({ n: 0 }), loseAnswer));
    expect((await deletion(adapter, base)).kind).toBe("unknown");
  });

  it("answered 404 for certain is a race", async () => {
    const { service, blob, adapter, base } = await setUp();
    blob.drop();
    expect(await deletion(adapter, base)).toMatchObject({ kind: "conflict", error: { statusCode: 404 } });
    expect(service.count()).toBe(1);
  });
});

describe("targets without a journal", () => {
  for (const target of [blobHttpHeaders, blobTags]) {
    const wanted = { cacheControl: "no-store" };
    const other = target === blobTags ? { tags: { a: "1" } } : { headers: { blobContentType: "text/plain", blobCacheControl: "x" } };
    const write = target === blobTags ? "setTags" : "setHTTPHeaders";

    it(`${target.name}: what is as it should be counts as written`, async () => {
      const { service, blob } = counterBlob();
      blob.put({ n: 0 }, other);
      const adapter = adapterOf(target(blob))!;
      const base = (await adapter.read(requestContext()))!;
      service.next(write, loseAnswer);
      const draft = target === blobTags ? wanted : { ...wanted, contentType: "text/plain" };
      expect(await commit(adapter, { base, draft, journaling: true }, requestContext())).toMatchObject({ kind: "committed" });
    });

    it(`${target.name}: what is different is unknown`, async () => {
      const { service, blob } = counterBlob();
      blob.put({ n: 0 }, other);
      const adapter = adapterOf(target(blob))!;
      const base = (await adapter.read(requestContext()))!;
      blob.put({ n: 0 }, { tags: { b: "2" }, headers: { blobCacheControl: "y" } });
      service.next(write, loseAnswer);
      expect((await commit(adapter, { base, draft: wanted, journaling: true }, requestContext())).kind).toBe("unknown");
    });
  }
});

it("takes its listener off the signal that it was given", async () => {
  const { service, adapter, base } = await setUp();
  const controller = new AbortController();
  const removed = vi.spyOn(controller.signal, "removeEventListener");
  const added = vi.spyOn(controller.signal, "addEventListener");
  const slow = gate();
  service.next("upload", slow.fault);
  const outcome = commit(adapter, { base, draft: '{"n":2}', journaling: true }, requestContext({ abortSignal: controller.signal }));
  slow.open();
  await outcome;
  expect(added).toHaveBeenCalledTimes(1);
  expect(removed).toHaveBeenCalledTimes(1);
});

describe("a write of which a proxy or a browser sends a copy below the SDK", () => {
  /** As the update queue does: what is stored is read after a conflict, as the next attempt needs it anyway. */
  function update(adapter: Ours, base: Snapshot<string> | undefined): Promise<CommitOutcome<string>> {
    return inFakeTime(commit(adapter, { base, draft: '{"n":2}', journaling: true }, requestContext(), () => 0));
  }

  /** The next upload is sent twice, and the answer to the second one is what the SDK gets to see. */
  function sendTwice(blob: FakeBlockBlob): void {
    const upload = blob.upload.bind(blob);
    blob.upload = async (body: Uint8Array, length: number, given?: BlobUploadOptions) => {
      const { abortSignal, ...options } = given ?? {};
      blob.upload = upload;
      await upload(body, length, options);
      return upload(body, length, { ...options, ...(abortSignal && { abortSignal }) });
    };
  }

  it("is committed if the rejection was meant for the second copy", async () => {
    const { service, blob, adapter, base } = await setUp();
    sendTwice(blob);
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: false, found: { etag: blob.stored?.etag } });
    expect(service.operations).toEqual(["upload", "upload", "download"]);
  });

  it("is committed if it was to create the target, and the second copy found it there", async () => {
    const { blob, adapter } = await setUp();
    blob.drop();
    sendTwice(blob);
    expect(await update(adapter, undefined)).toMatchObject({ kind: "committed", superseded: false });
  });

  it("is committed even if others have written on top of the first copy", async () => {
    const { blob, adapter, base } = await setUp();
    sendTwice(blob);
    const write = adapter.write.bind(adapter);
    const read = vi.spyOn(adapter, "read").mockImplementationOnce(async (context) => {
      read.mockRestore();
      const top = (await adapter.read(context))!;
      await write(top, '{"n":7}', journalAfter(top, newWriteId()), context);
      return adapter.read(context);
    });
    expect(await update(adapter, base)).toMatchObject({ kind: "committed", superseded: true });
  });

  it.each([
    ["that kept the journal", true],
    ["that dropped the journal", false],
  ])("met a conflict with a writer %s", async (_, keeps) => {
    const { blob, adapter, base } = await setUp();
    if (keeps) await othersWrite(adapter, 1);
    else blob.put({ n: 9 });
    expect(await update(adapter, base)).toMatchObject({ kind: "conflict", error: { statusCode: 412 }, found: { etag: blob.stored?.etag } });
  });

  it("is never recognised by equal content alone, and a delete whose target is absent is of unknown outcome", async () => {
    const { blob, adapter, base } = await setUp();
    blob.putKeeping({ n: 2 });
    expect((await update(adapter, base)).kind).toBe("conflict");
    blob.drop();
    const deletion = commit(adapter, { base, draft: undefined, journaling: true }, requestContext(), () => 0);
    expect(await inFakeTime(deletion)).toMatchObject({ kind: "unknown", found: null, wasRejected: true });
  });

  it("may be its own without a journal, if what is stored has the value and is not of a writer with a journal", async () => {
    const { blob, adapter, base } = await setUp();
    const plan = { base, draft: '{"n":2}', journaling: false };
    blob.putKeeping({ n: 2 });
    expect(await commit(adapter, plan, requestContext(), () => 0)).toMatchObject({ kind: "conflict", mayBeOwn: true });
    await othersWrite(adapter, 1);
    blob.putKeeping({ n: 2 });
    expect(await commit(adapter, plan, requestContext(), () => 0)).toMatchObject({ kind: "conflict", mayBeOwn: false });
  });

  it("is rejected for any other reason without a read", async () => {
    const { service, blob, adapter, base } = await setUp();
    service.next("upload", answer(403, "AuthorizationFailure"));
    expect(await update(adapter, base)).toMatchObject({ kind: "rejected" });
    expect(blob.stored?.etag).toBe(base.etag);
    expect(service.operations).toEqual(["upload"]);
  });
});
