import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { ConflictError, createIfNotExists, optimisticUpdate, readTarget, DELETE, deleteIfUnchanged, TargetNotFoundError, type UpdateTarget } from "../../src/index.js";
import { dropResponse, isWrite } from "../../src/testing.js";
import { fromOutside } from "../support/from-outside.js";
import { type Doc, kinds, subjectOf, type SubjectOfTest } from "./subjects.js";

const rounds = Array.from({ length: 25 }, (_, round) => round);

describe.each(kinds)("two clients of one %s", (kind) => {
  let subject: SubjectOfTest;
  let a: UpdateTarget<Doc>;
  let b: UpdateTarget<Doc>;

  beforeEach(async () => {
    subject = await subjectOf(kind);
    [a, b] = [subject.client(), subject.client()];
  });

  afterEach(() => subject.proxy.stop());

  const add = (target: UpdateTarget<Doc>, initial?: Doc, onUnknown?: "retry") =>
    optimisticUpdate(target, (doc) => { doc.n++; }, { initial, onUnknown });

  /** Waits for both, and says what became of each: its outcome, or the name of its error. */
  async function outcomes(...calls: Promise<{ outcome: string } | undefined>[]): Promise<string[]> {
    const settled = await Promise.allSettled(calls);
    return settled.map((call) => (call.status === "fulfilled" ? (call.value?.outcome ?? "done") : (call.reason as Error).name));
  }

  it.each([0, 0.3])("create it once and update it once if both want both, with %d of the answers to writes lost", async (lost) => {
    subject.proxy.rules = [dropResponse({ when: isWrite, probability: lost })];
    for (const round of rounds) {
      // No client deletes it, so that a create of unknown outcome can be retried.
      const both = await outcomes(add(a, subject.initial(0), "retry"), add(b, subject.initial(0), "retry"));
      expect(both.sort(), `round ${round}`).toEqual(["created", "updated"]);
      expect(await subject.stored()).toBe(2);
      await subject.delete();
    }
  });

  it.each([0, 0.3])("find one creator by createIfNotExists, with %d of the answers to writes lost", async (lost) => {
    subject.proxy.rules = [dropResponse({ when: isWrite, probability: lost })];
    for (const round of rounds) {
      const settled = await Promise.allSettled([createIfNotExists(a, subject.initial(1)), createIfNotExists(b, subject.initial(2))]);
      const results = settled.flatMap((call) => (call.status === "fulfilled" ? [call.value] : []));
      const created = results.filter(({ outcome }) => outcome === "created");
      const stored = await subject.stored();
      // A loser whose response was lost does not know whether it created what another client deleted: it says so.
      for (const call of settled) if (call.status === "rejected") expect(call.reason, `round ${round}`).toMatchObject({ code: "COMMIT_UNKNOWN" });
      expect(created, `round ${round}`).toHaveLength(1);
      if (lost === 0) expect(results).toHaveLength(2);
      for (const { value } of results) expect(value.n).toBe(stored);
      await subject.delete();
    }
  });

  it("delete it once if both want to", async () => {
    for (const round of rounds) {
      await subject.store(1);
      const both = await outcomes(
        optimisticUpdate(a, () => DELETE),
        optimisticUpdate(b, () => DELETE),
      );
      // Which of the two: whether the other one read before or after it was gone.
      expect([["TargetNotFoundError", "deleted"], ["CommitUnknownError", "deleted"]], `round ${round}`).toContainEqual(both.sort());
      expect(await subject.stored()).toBeUndefined();
    }
  });

  it("delete it once if both do so by its ETag", async () => {
    for (const round of rounds) {
      await subject.store(1);
      const { etag } = await readTarget(a);
      const both = await outcomes(
        deleteIfUnchanged(a, etag).then(() => undefined),
        deleteIfUnchanged(b, etag).then(() => undefined),
      );
      expect(both.sort(), `round ${round}`).toEqual(["TargetNotFoundError", "done"]);
      expect(await subject.stored()).toBeUndefined();
    }
  });

  it("agree on who was first if one updates and the other deletes by the ETag", async () => {
    for (const round of rounds) {
      await subject.store(round);
      const { etag } = await readTarget(a);
      const [updated, deleted] = await outcomes(
        add(a),
        deleteIfUnchanged(b, etag).then(() => undefined),
      );
      if (deleted === "done") {
        expect(updated).toBe("TargetNotFoundError");
        expect(await subject.stored()).toBeUndefined();
      } else {
        expect([updated, deleted]).toEqual(["updated", "ConflictError"]);
        expect(await subject.stored()).toBe(round + 1);
      }
    }
  });

  it("lose neither the update nor the delete if one updates and the other removes whatever it sees", async () => {
    for (const round of rounds) {
      await subject.store(round);
      let seen: number | undefined;
      const removing = optimisticUpdate(a, (doc) => {
        seen = doc.n;
        return DELETE;
      });
      const [deleted, updated] = await outcomes(removing, add(b, subject.initial(100)));
      expect(deleted).toBe("deleted");
      expect((await removing).value.n).toBe(seen);
      if (updated === "created") expect([seen, await subject.stored()]).toEqual([round, 101]);
      else expect([updated, seen, await subject.stored()]).toEqual(["updated", round + 1, undefined]);
    }
  });

  it("tell an update of what was deleted after the read that it is gone", async () => {
    await subject.store(1);
    const updating = optimisticUpdate(a, async (doc, { attempt }) => {
      if (attempt === 1) await fromOutside(() => optimisticUpdate(b, () => DELETE));
      doc.n++;
    });
    await expect(updating).rejects.toThrow(TargetNotFoundError);
    expect(await subject.stored()).toBeUndefined();
  });

  it("let an update with initial start anew after a delete", async () => {
    await subject.store(5);
    const seen: number[] = [];
    const updating = optimisticUpdate(
      a,
      async (doc, { attempt }) => {
        seen.push(doc.n);
        if (attempt === 1) await fromOutside(() => optimisticUpdate(b, () => DELETE));
        doc.n++;
      },
      { initial: subject.initial(0) },
    );
    expect(await updating).toMatchObject({ outcome: "created", value: { n: 1 }, attempts: 2 });
    expect(seen).toEqual([5, 0]);
    expect(await subject.stored()).toBe(1);
  });

  it("let a removing mutator look again after an update", async () => {
    await subject.store(1);
    const removing = optimisticUpdate(a, async (doc, { attempt }) => {
      if (attempt === 1) await fromOutside(() => add(b));
      return doc.n > 1 ? undefined : DELETE;
    });
    expect(await removing).toMatchObject({ outcome: "unchanged", value: { n: 2 } });
    expect(await subject.stored()).toBe(2);
  });

  it("refuse to delete what was updated since", async () => {
    await subject.store(1);
    const { etag } = await readTarget(a);
    await add(b);
    await expect(deleteIfUnchanged(a, etag)).rejects.toThrow(ConflictError);
    expect(await subject.stored()).toBe(2);
  });

  it("give up after maxAttempts lost races, and nothing of that update is there", async () => {
    await subject.store(0);
    const losing = optimisticUpdate(
      a,
      async (doc) => {
        await fromOutside(() => add(b));
        doc.n = -1;
      },
      { maxAttempts: 3, retryDelayInMs: 0 },
    );
    await expect(losing).rejects.toMatchObject({ name: "ConflictError", attempts: 3 });
    expect(await subject.stored()).toBe(3);
  });
});
