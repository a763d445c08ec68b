import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { ConflictError, optimisticUpdate, readTarget, deleteIfUnchanged, type UpdateTarget } from "../../src/index.js";
import { delay, isWrite } from "../../src/testing.js";
import { type Doc, kinds, subjectOf, type SubjectOfTest } from "./subjects.js";

describe.each(kinds)("concurrent updates of one %s in one process", (kind) => {
  let subject: SubjectOfTest;
  let target: UpdateTarget<Doc>;

  beforeEach(async () => {
    subject = await subjectOf(kind);
    target = subject.client();
    await subject.store(0);
  });

  afterEach(() => subject.proxy.stop());

  const add = () => optimisticUpdate(target, (doc) => { doc.n++; });

  it("are applied in the order of the calls, and each caller gets its own value", async () => {
    const results = await Promise.all(Array.from({ length: 50 }, add));
    expect(results.map(({ value }) => value.n)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect(await subject.stored()).toBe(50);
  });

  it("give each caller a value that no other caller can change", async () => {
    const [first, second] = await Promise.all([add(), add()]);
    first.value.n = 100;
    expect(second.value.n).toBe(2);
  });

  it("give an ETag that matches to the last caller only", async () => {
    const results = await Promise.all([add(), add(), add()]);
    const [first, second, last] = results.map(({ etag }) => etag) as [string, string, string];
    expect(last).toBe((await readTarget(target)).etag);
    await expect(deleteIfUnchanged(target, first)).rejects.toThrow(ConflictError);
    await expect(deleteIfUnchanged(target, second)).rejects.toThrow(ConflictError);
    await deleteIfUnchanged(target, last);
  });

  it("are not touched by one whose mutator throws", async () => {
    const fail = () =>
      optimisticUpdate(target, (doc) => {
        doc.n += 1_000;
        throw new Error("mine alone");
      });
    const failed = { status: "rejected", reason: { message: "mine alone" } };
    expect(await Promise.allSettled([fail(), add(), fail(), add(), fail()])).toMatchObject([
      failed,
      { status: "fulfilled", value: { value: { n: 1 } } },
      failed,
      { status: "fulfilled", value: { value: { n: 2 } } },
      failed,
    ]);
    expect(await subject.stored()).toBe(2);
  });

  it("are not touched by one whose caller went away before its turn", async () => {
    const controller = new AbortController();
    const reason = new Error("gone");
    const goingFirst = optimisticUpdate(target, (doc) => { doc.n += 1_000; }, { abortSignal: controller.signal });
    const going = [add(), optimisticUpdate(target, (doc) => { doc.n += 1_000; }, { abortSignal: controller.signal }), add()];
    const calls = Promise.allSettled([goingFirst, ...going]);
    controller.abort(reason);
    const results = await calls;
    expect(results).toMatchObject([{ status: "rejected", reason }, { value: { value: { n: 1 } } }, { status: "rejected", reason }, { value: { value: { n: 2 } } }]);
    expect(await subject.stored()).toBe(2);
  });

  it("are not touched by one whose caller goes away while its write is under way", async () => {
    subject.proxy.rules = [delay(100, { when: isWrite, times: 1 })];
    const controller = new AbortController();
    const reason = new Error("gone");
    const before = add();
    const going = optimisticUpdate(target, (doc) => { doc.n++; }, { abortSignal: controller.signal });
    const calls = Promise.allSettled([before, going, add()]);
    await subject.proxy.waitFor(isWrite);
    controller.abort(reason);
    await expect(going).rejects.toBe(reason);
    // Its change is part of the write that the others wait for, so it lands with them.
    expect(await calls).toMatchObject([{ value: { value: { n: 1 } } }, { reason }, { value: { value: { n: 3 } } }]);
    expect(await subject.stored()).toBe(3);
  });

  it("do not wait for an async mutator that takes its time, which still lands once", async () => {
    let finish: () => void = () => undefined;
    const slowness = new Promise<void>((resolve) => (finish = resolve));
    const slow = optimisticUpdate(target, async (doc) => {
      await slowness;
      doc.n += 100;
    });
    const others = await Promise.all([add(), add(), add()]);
    expect(others.map(({ value }) => value.n)).toEqual([1, 2, 3]);
    finish();
    expect((await slow).value.n).toBe(103);
    expect(await subject.stored()).toBe(103);
  });

  it("go on past a mutator that never ends, whose caller gives up", async () => {
    const controller = new AbortController();
    const hanging = optimisticUpdate(target, () => new Promise<never>(() => undefined), { abortSignal: controller.signal });
    await Promise.all([add(), add()]);
    controller.abort(new Error("enough"));
    await expect(hanging).rejects.toThrow("enough");
    await add();
    expect(await subject.stored()).toBe(3);
  });

  it("never run one mutator twice at the same time", async () => {
    let running = 0;
    let most = 0;
    const slow = optimisticUpdate(target, async (doc) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 120));
      doc.n += 100;
      running--;
    });
    await Promise.all([add(), add()]);
    await add();
    await slow;
    expect(most).toBe(1);
    expect(await subject.stored()).toBe(103);
  });

  it("see what was written elsewhere before they were called", async () => {
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        await add();
        await optimisticUpdate(subject.client(), (doc) => { doc.n += 1_000; });
        const { value } = await optimisticUpdate(target, () => undefined);
        expect(value.n).toBeGreaterThanOrEqual(1_001);
      }),
    );
    expect(await subject.stored()).toBe(20_020);
  });
});
