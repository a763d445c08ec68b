import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { createIfNotExists, optimisticUpdate, overwrite, readTarget, DELETE, deleteIfUnchanged, type UpdateTarget } from "../../src/index.js";
import { dropResponse, isRead, isWrite } from "../../src/testing.js";
import { fromOutside } from "../support/from-outside.js";
import { type Doc, kinds, subjectOf, type SubjectOfTest } from "./subjects.js";

describe.each(kinds)("what it costs on a %s:", (kind) => {
  let subject: SubjectOfTest;
  let target: UpdateTarget<Doc>;

  beforeEach(async () => {
    subject = await subjectOf(kind);
    target = subject.client();
    await subject.store(1);
  });

  afterEach(() => subject.proxy.stop());

  const add = (to = target) => optimisticUpdate(to, (doc) => { doc.n++; });

  function expectRequests(count: { reads: number; writes: number }): void {
    expect({ reads: subject.proxy.count(isRead), writes: subject.proxy.count(isWrite) }).toEqual(count);
    expect(subject.proxy.requests).toBe(count.reads + count.writes);
  }

  it("an update is 2 requests", async () => {
    await add();
    expectRequests({ reads: 1, writes: 1 });
  });

  it("an update that creates is 2 requests", async () => {
    await subject.delete();
    await optimisticUpdate(target, (doc) => { doc.n++; }, { initial: subject.initial(0) });
    expectRequests({ reads: 1, writes: 1 });
  });

  it("a delete is 2 requests", async () => {
    await optimisticUpdate(target, () => DELETE);
    expectRequests({ reads: 1, writes: 1 });
  });

  it("an update that changes nothing is 1 request", async () => {
    await optimisticUpdate(target, () => undefined);
    expectRequests({ reads: 1, writes: 0 });
  });

  it("an update of nothing is 1 request", async () => {
    await subject.delete();
    await expect(add()).rejects.toThrow("does not exist");
    expectRequests({ reads: 1, writes: 0 });
  });

  it("an update that starts from what was read is 1 request", async () => {
    const startFrom = await readTarget(target);
    subject.proxy.reset();
    await optimisticUpdate(target, (doc) => { doc.n++; }, { startFrom });
    expectRequests({ reads: 0, writes: 1 });
    expect(await subject.stored()).toBe(2);
  });

  it("an update that starts from what is outdated is 3 requests", async () => {
    const startFrom = await readTarget(target);
    await subject.store(10);
    subject.proxy.reset();
    await optimisticUpdate(target, (doc) => { doc.n++; }, { startFrom });
    expectRequests({ reads: 1, writes: 2 });
    expect(await subject.stored()).toBe(11);
  });

  it("readTarget is 1 request", async () => {
    await readTarget(target);
    expectRequests({ reads: 1, writes: 0 });
  });

  it("overwrite is 1 request", async () => {
    await overwrite(target, subject.initial(7));
    expectRequests({ reads: 0, writes: 1 });
    expect(await subject.stored()).toBe(7);
  });

  it("deleteIfUnchanged is 1 request", async () => {
    const { etag } = await readTarget(target);
    subject.proxy.reset();
    await deleteIfUnchanged(target, etag);
    expectRequests({ reads: 0, writes: 1 });
  });

  it("createIfNotExists is 1 request if it creates, and 2 if it finds", async () => {
    await subject.delete();
    await createIfNotExists(target, subject.initial(3));
    expectRequests({ reads: 0, writes: 1 });
    subject.proxy.reset();
    expect(await createIfNotExists(target, subject.initial(4))).toMatchObject({ outcome: "unchanged", value: { n: 3 } });
    expectRequests({ reads: 1, writes: 1 });
  });

  it("one lost race is 4 requests", async () => {
    await optimisticUpdate(target, async (doc, { attempt }) => {
      if (attempt === 1) await subject.store(10);
      doc.n++;
    });
    expectRequests({ reads: 2, writes: 2 });
    expect(await subject.stored()).toBe(11);
  });

  it("a lost answer is 4 requests: the SDK's second try, and one look at what is stored", async () => {
    subject.proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    await add();
    expectRequests({ reads: 2, writes: 2 });
    expect(await subject.stored()).toBe(2);
  });

  it("a lost race whose answer was lost as well is 5 requests: what was read to find out is what it starts again from", async () => {
    await add(); // the journal begins
    const other = subject.client();
    subject.proxy.reset([dropResponse({ whenResponse: ({ status }) => status === 412, times: 1 })]);
    await optimisticUpdate(target, async (doc, { attempt }) => {
      if (attempt === 1) await fromOutside(() => add(other));
      doc.n++;
    });
    expect(subject.proxy.faultCount("drop-response")).toBe(1);
    expectRequests({ reads: 2 + 1, writes: 3 + 1 }); // with those of the other
    expect(await subject.stored()).toBe(4);
  });

  it("100 updates at once are 2 requests", async () => {
    await Promise.all(Array.from({ length: 100 }, () => add()));
    expectRequests({ reads: 1, writes: 1 });
    expect(await subject.stored()).toBe(101);
  });

  it("100 updates that come while a write is under way are 1 request more, and no further read", async () => {
    const first = add();
    await subject.proxy.waitFor(isWrite);
    await Promise.all([first, ...Array.from({ length: 100 }, () => add())]);
    expectRequests({ reads: 1, writes: 2 });
    expect(await subject.stored()).toBe(102);
  });

  it("updates with coalesce: false each read and write for themselves", async () => {
    for (let i = 0; i < 10; i++) await optimisticUpdate(target, (doc) => { doc.n++; }, { coalesce: false });
    expectRequests({ reads: 10, writes: 10 });
  });
});
