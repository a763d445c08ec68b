import { describe, expect, it } from "vitest";

import type { Inbox, InboxClaim, InboxClaimResult, InboxDelivery } from "../../../src/index.js";
import { claimed } from "./contract.js";
import type { ContractTime } from "./contract.js";
import { again, deliver, request } from "./deliveries.js";

/** What an inbox has to do with groups and sequences, whatever it is made of. */
export function groupContract(name: string, create: () => Promise<{ inbox: Inbox; other: Inbox }>, time: ContractTime): void {
  const { pass, service = () => Date.now(), movesRecords = true } = time;
  const claimDurationInMs = 120_000;
  let keys = 0;
  const some = (properties: Partial<InboxDelivery> = {}): InboxDelivery =>
    deliver(`k${++keys}`, { group: "g", claimDurationInMs, receivedOn: new Date(service()), ...properties });
  const kinds = async (inbox: Inbox, ...deliveries: InboxDelivery[]): Promise<string[]> => (await inbox.claim(deliveries, request)).map(({ kind }) => kind);

  describe(`${name}, groups`, () => {
    it("lets one message of a group start, and the next one after it has ended", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some()], request));
      const second = some();
      expect(await kinds(other, second)).toEqual(["busy"]);
      expect(await kinds(inbox, some())).toEqual(["busy"]);
      expect(await claim.complete(request)).toBe("completed");
      const next = claimed(await other.claim([again(second)], request));
      await next.release(false, request);
      claimed(await inbox.claim([some()], request));
    });

    it("lets messages of other groups, and of none, start", async () => {
      const { inbox, other } = await create();
      claimed(await inbox.claim([some()], request));
      expect(await kinds(other, some({ group: "h" }), some({ group: undefined }), some({ group: "g2" }))).toEqual(["claimed", "claimed", "claimed"]);
    });

    it("takes the first of several in a batch that share a group", async () => {
      const { inbox } = await create();
      expect(await kinds(inbox, some(), some({ group: "h" }), some(), some({ group: "h" }))).toEqual(["claimed", "claimed", "busy", "busy"]);
    });

    it("does not claim the key of a message whose group is busy", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some()], request));
      const waits = some();
      expect(await kinds(other, waits)).toEqual(["busy"]);
      expect(await claim.complete(request)).toBe("completed");
      // Another message with the same key: it would have to wait for the claim of the first one.
      claimed(await inbox.claim([some({ idempotencyKey: waits.idempotencyKey })], request));
    });

    it("knows a duplicate although its group is busy, if it was delivered before", async () => {
      const { inbox, other } = await create();
      const first = some();
      expect(await claimed(await inbox.claim([first], request)).complete(request)).toBe("completed");
      claimed(await inbox.claim([some()], request));
      expect(await kinds(other, again(first))).toEqual(["completed"]);
    });

    it("lets the next delivery of the same message take the group over at once", async () => {
      const { inbox, other } = await create();
      const first = some();
      const before = claimed(await inbox.claim([first], request));
      const after = claimed(await other.claim([again(first)], request));
      expect(await before.renew(request)).toBe("lost");
      expect(await before.complete(request)).toBe("lost");
      expect(await kinds(inbox, some())).toEqual(["busy"]);
      expect(await after.complete(request)).toBe("completed");
      claimed(await inbox.claim([some()], request));
    });

    it("lets another message take the group over after its time, and the earlier holder frees or renews it no more", async () => {
      const { inbox, other } = await create();
      const before = claimed(await inbox.claim([some()], request));
      const renewer = claimed(await inbox.claim([some({ group: "h" })], request));
      const releaser = claimed(await inbox.claim([some({ group: "i" })], request));
      await pass(claimDurationInMs + 100);
      const successors = await other.claim([some(), some({ group: "h" }), some({ group: "i" })], request);
      expect(successors.map(({ kind }) => kind)).toEqual(["claimed", "claimed", "claimed"]);
      expect(await before.complete(request)).toBe("lost");
      expect(await renewer.renew(request)).toBe("lost");
      await releaser.release(true, request);
      // Seen at the time at which the successors were claimed, whatever moves the clock of the test.
      const now = { receivedOn: new Date() };
      expect(await kinds(inbox, some(now), some({ group: "h", ...now }), some({ group: "i", ...now }))).toEqual(["busy", "busy", "busy"]);
      for (const successor of successors) expect(await claimed([successor]).complete(request)).toBe("completed");
    });

    it("gives the same delivery its claim again, as its first response may have been lost", async () => {
      const { inbox } = await create();
      const first = some();
      claimed(await inbox.claim([first], request));
      const claim = claimed(await inbox.claim([first], request));
      expect(await claim.complete(request)).toBe("completed");
      claimed(await inbox.claim([some()], request));
    });

    it.runIf(movesRecords)("makes others of the group wait longer if a claim is renewed", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some()], request));
      await pass(claimDurationInMs / 2);
      expect(await claim.renew(request)).toBe("renewed");
      await pass(0.75 * claimDurationInMs);
      expect(await kinds(other, some())).toEqual(["busy"]);
      expect(await claim.complete(request)).toBe("completed");
    });

    it.runIf(movesRecords)("lets one of several take over what is overdue", async () => {
      const { inbox, other } = await create();
      claimed(await inbox.claim([some()], request));
      await pass(claimDurationInMs + 100);
      const results = await Promise.all([inbox, other, inbox, other].map((contender) => kinds(contender, some())));
      expect(results.flat().toSorted()).toEqual(["busy", "busy", "busy", "claimed"]);
    });
  });

  describe(`${name}, hand-over`, () => {
    const handOver = async (claim: InboxClaim, next: InboxDelivery): Promise<"lost" | InboxClaimResult | undefined> => {
      const result = await claim.completeAndClaim!(next, request);
      return result === "lost" ? result : result.next;
    };
    const handedOver = async (claim: InboxClaim, next: InboxDelivery): Promise<InboxClaim> => {
      const result = await handOver(claim, next);
      if (typeof result !== "object") throw new Error(`not handed over: ${result}`);
      return claimed([result]);
    };

    it("completes a message and claims the next one of its group: the group is not free in between", async () => {
      const { inbox, other } = await create();
      const [first, second, third] = [some(), some(), some()];
      const claim = await handedOver(claimed(await inbox.claim([first], request)), second);
      expect(await kinds(other, again(first))).toEqual(["completed"]);
      expect(await kinds(other, third)).toEqual(["busy"]);
      expect(await kinds(other, some({ idempotencyKey: second.idempotencyKey }))).toEqual(["busy"]);
      expect(await claim.renew(request)).toBe("renewed");
      const last = await handedOver(claim, third);
      expect(await kinds(other, again(second), some())).toEqual(["completed", "busy"]);
      expect(await last.complete(request)).toBe("completed");
      claimed(await other.claim([some()], request));
    });

    it("gives the group to the next delivery of the message that has it, and to others after its time", async () => {
      const { inbox, other } = await create();
      const [second, third] = [some(), some()];
      const late = await handedOver(claimed(await inbox.claim([some()], request)), second);
      const after = claimed(await other.claim([again(second)], request));
      expect(await handOver(late, third)).toBe("lost");
      expect(await kinds(inbox, third)).toEqual(["busy"]);
      const overdue = await handedOver(after, again(third));
      await pass(claimDurationInMs + 100);
      claimed(await inbox.claim([some()], request));
      expect(await overdue.complete(request)).toBe("lost");
      // The key of the third was not completed.
      expect(await kinds(inbox, again(again(third)))).toEqual(["busy"]);
    });

    it("completes a message although the next one is done already", async () => {
      const { inbox } = await create();
      const done = some();
      expect(await claimed(await inbox.claim([done], request)).complete(request)).toBe("completed");
      expect(await handOver(claimed(await inbox.claim([some()], request)), again(done))).toEqual({ kind: "completed" });
      expect(await handOver(claimed(await inbox.claim([some()], request)), some({ idempotencyKey: done.idempotencyKey, payloadHash: "other" }))).toEqual({ kind: "payloadMismatch" });
      claimed(await inbox.claim([some()], request));
    });

    it("claims a message that has failed before, and counts on", async () => {
      const { inbox } = await create();
      const failed = some();
      await claimed(await inbox.claim([failed], request)).release(true, request);
      const claim = await handedOver(claimed(await inbox.claim([some()], request)), again(failed));
      expect(claim.failures).toBe(1);
      expect(await claim.complete(request)).toBe("completed");
    });

    it("does not claim another message with the same key: it is a duplicate", async () => {
      const { inbox } = await create();
      const first = some();
      const result = await handOver(claimed(await inbox.claim([first], request)), some({ idempotencyKey: first.idempotencyKey }));
      expect(result === undefined || (typeof result === "object" && result.kind === "completed")).toBe(true);
      claimed(await inbox.claim([some()], request));
    });

    it("raises the sequence, and is for the message that follows only", async () => {
      const { inbox, other } = await create();
      const at = (sequence: number): InboxDelivery => some({ sequence });
      const second = await handedOver(claimed(await inbox.claim([at(1)], request)), at(2));
      expect(await other.claim([at(4)], request)).toMatchObject([{ kind: "gap", lastSequence: 1 }]);
      const result = await handOver(second, at(4));
      expect(typeof result === "object" ? result.kind : result).toBeOneOf(["gap", undefined]);
      const third = claimed(await other.claim([at(3)], request));
      const last = await handedOver(third, at(4));
      expect(await last.complete(request)).toBe("completed");
      expect(await inbox.claim([at(9)], request)).toMatchObject([{ kind: "gap", lastSequence: 4 }]);
    });
  });

  describe(`${name}, sequences`, () => {
    const at = (sequence: number, properties: Partial<InboxDelivery> = {}): InboxDelivery => some({ sequence, ...properties });
    const complete = async (inbox: Inbox, delivery: InboxDelivery): Promise<void> => {
      expect(await claimed(await inbox.claim([delivery], request)).complete(request)).toBe("completed");
    };

    it("lets messages start one after the other, from 1 on", async () => {
      const { inbox, other } = await create();
      expect(await inbox.claim([at(2)], request)).toMatchObject([{ kind: "gap", lastSequence: 0 }]);
      await complete(inbox, at(1));
      expect(await other.claim([at(3)], request)).toMatchObject([{ kind: "gap", lastSequence: 1 }]);
      await complete(inbox, at(2));
      await complete(other, at(3));
      await complete(inbox, at(4));
      await complete(inbox, at(5));
      await complete(other, at(1, { group: "h" }));
    });

    it("keeps the position of a message that is released, and that of one which was taken over", async () => {
      const { inbox, other } = await create();
      const first = at(1);
      await claimed(await inbox.claim([first], request)).release(true, request);
      expect(await kinds(other, at(2))).toEqual(["gap"]);
      claimed(await inbox.claim([again(first)], request));
      await complete(other, again(again(first)));
      await complete(inbox, at(2));
    });

    it("tells a duplicate from another message with a sequence that was used", async () => {
      const { inbox, other } = await create();
      const first = at(1);
      await complete(inbox, first);
      expect(await kinds(other, again(first))).toEqual(["completed"]);
      expect(await kinds(other, at(1, { idempotencyKey: first.idempotencyKey }))).toEqual(["completed"]);
      expect(await kinds(inbox, at(1))).toEqual(["sequenceUsed"]);
      expect(await kinds(other, again(at(1)))).toEqual(["sequenceUsed"]);
    });

    it("does not let the successor start while a handler runs", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([at(1)], request));
      expect(await kinds(other, at(2))).toEqual(["gap"]);
      expect(await kinds(other, at(1))).toEqual(["busy"]);
      expect(await claim.complete(request)).toBe("completed");
      expect(await claim.complete(request)).not.toBe("renewed");
      expect(await kinds(other, at(3))).toEqual(["gap"]);
      await complete(other, at(2));
    });

    it("is not broken by consumers that do not keep the order: they get no message of the group", async () => {
      const { inbox, other } = await create();
      await complete(inbox, at(1));
      expect(await kinds(other, some())).toEqual(["gap"]);
      await complete(inbox, at(2));
      expect(await kinds(other, some())).toEqual(["gap"]);
    });
  });
}
