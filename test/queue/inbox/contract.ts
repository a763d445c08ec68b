import { describe, expect, it } from "vitest";

import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "../../../src/index.js";
import { again, deliver, request } from "./deliveries.js";

/** The time of a contract's run. */
export interface ContractTime {
  readonly pass: (ms: number) => Promise<unknown>;
  /** As deliveries tell it. @defaultValue that of the test */
  readonly service?: () => number;
  /** Whether records are written at a time that passes with `pass`. @defaultValue true */
  readonly movesRecords?: boolean;
}

/** What an inbox has to do, whatever it is made of. */
export function inboxContract(name: string, create: () => Promise<{ inbox: Inbox; other: Inbox }>, time: ContractTime): void {
  const { pass, service = () => Date.now(), movesRecords = true } = time;
  const claimDurationInMs = 120_000;
  const some = (key: string, properties: Partial<InboxDelivery> = {}): InboxDelivery =>
    deliver(key, { claimDurationInMs, receivedOn: new Date(service()), ...properties });

  describe(name, () => {
    it("lets one delivery of a key start, and knows it to be done afterwards", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some("a")], request));
      expect(claim.failures).toBe(0);
      expect(await claim.complete(request)).toBe("completed");
      expect(await other.claim([some("a")], request)).toEqual([{ kind: "completed" }]);
    });

    it("lets another message with the same key wait until the time of the first is over", async () => {
      const { inbox, other } = await create();
      claimed(await inbox.claim([some("a")], request));
      const [verdict] = await other.claim([some("a")], request);
      expect(verdict).toMatchObject({ kind: "busy" });
      await pass(claimDurationInMs + 100);
      const claim = claimed(await other.claim([some("a")], request));
      expect(claim.failures).toBe(0);
    });

    it("lets the next delivery of the same message take over at once, and counts no failure", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      const before = claimed(await inbox.claim([first], request));
      const after = claimed(await other.claim([again(first)], request));
      expect(after.failures).toBe(0);
      expect(await before.complete(request)).toBe("lost");
      expect(await before.renew(request)).toBe("lost");
      expect(await after.complete(request)).toBe("completed");
    });

    it.runIf(movesRecords)("lets one of several take over what is overdue", async () => {
      const { inbox, other } = await create();
      claimed(await inbox.claim([some("a")], request));
      await pass(claimDurationInMs + 100);
      const verdicts = await Promise.all([inbox, other, inbox, other].map((contender) => contender.claim([some("a")], request)));
      expect(verdicts.flat().map(({ kind }) => kind).toSorted()).toEqual(["busy", "busy", "busy", "claimed"]);
    });

    it("turns an earlier delivery away that arrives late", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      claimed(await inbox.claim([again(first)], request));
      expect(await other.claim([first], request)).toEqual([{ kind: "superseded" }]);
    });

    it("gives the same delivery its claim again, as its first answer may have been lost", async () => {
      const { inbox } = await create();
      const first = some("a");
      claimed(await inbox.claim([first], request));
      const claim = claimed(await inbox.claim([first], request));
      expect(claim.failures).toBe(0);
      expect(await claim.complete(request)).toBe("completed");
    });

    it("lets others start as soon as a claim is released", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some("a")], request));
      await claim.release(true, request);
      claimed(await other.claim([some("a")], request));
      expect(await claim.complete(request)).toBe("lost");
    });

    it("counts a claim that was released as failed, and not one that was released without a failure", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      await claimed(await inbox.claim([first], request)).release(false, request);
      const second = claimed(await other.claim([again(first)], request));
      expect(second.failures).toBe(0);
      await second.release(true, request);
      const third = claimed(await inbox.claim([again(again(first))], request));
      expect(third.failures).toBe(1);
      // The count is that of the key: another message does not begin anew.
      await third.release(true, request);
      expect(claimed(await other.claim([some("a")], request)).failures).toBe(2);
    });

    it("counts the claims of a key, and one that its delivery gets again only once", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      expect(claimed(await inbox.claim([first], request)).claims).toBe(1);
      expect(claimed(await inbox.claim([first], request)).claims).toBe(1);
      // Its process has crashed.
      const second = claimed(await other.claim([again(first)], request));
      expect(second.claims).toBe(2);
      await second.renew(request);
      await second.release(true, request);
      expect(claimed(await inbox.claim([again(again(first))], request)).claims).toBe(3);
    });

    it("tells a key that was completed for another payload from a duplicate", async () => {
      const { inbox, other } = await create();
      const first = some("a", { payloadHash: "one" });
      const claim = claimed(await inbox.claim([first], request));
      expect(await claim.renew(request)).toBe("renewed");
      expect(await claim.complete(request)).toBe("completed");
      expect(await other.claim([some("a", { payloadHash: "two" })], request)).toEqual([{ kind: "payloadMismatch" }]);
      expect(await other.claim([some("a", { payloadHash: "one" })], request)).toEqual([{ kind: "completed" }]);
    });

    it("lets a key start with another payload if it was not completed: an operator may have corrected it", async () => {
      const { inbox, other } = await create();
      await claimed(await inbox.claim([some("a", { payloadHash: "one" })], request)).release(true, request);
      const claim = claimed(await other.claim([some("a", { payloadHash: "two" })], request));
      expect(await claim.complete(request)).toBe("completed");
      expect(await inbox.claim([some("a", { payloadHash: "two" })], request)).toEqual([{ kind: "completed" }]);
    });

    it("does not let a holder that was superseded release the claim of its successor", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      const before = claimed(await inbox.claim([first], request));
      claimed(await other.claim([again(first)], request));
      await before.release(true, request);
      expect(await other.claim([some("a")], request)).toMatchObject([{ kind: "busy" }]);
    });

    it.runIf(movesRecords)("makes others wait longer if a claim is renewed", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some("a")], request));
      await pass(claimDurationInMs / 2);
      expect(await claim.renew(request)).toBe("renewed");
      await pass(0.75 * claimDurationInMs);
      expect(await other.claim([some("a")], request)).toMatchObject([{ kind: "busy" }]);
      expect(await claim.complete(request)).toBe("completed");
    });

    it("takes the first of several in a batch that share a key", async () => {
      const { inbox } = await create();
      const verdicts = await inbox.claim([some("a"), some("b"), some("a")], request);
      expect(verdicts.map(({ kind }) => kind)).toEqual(["claimed", "claimed", "busy"]);
    });

    it("judges each of a batch by itself", async () => {
      const { inbox, other } = await create();
      const crashed = some("crashed");
      const [done] = await other.claim([some("done"), some("busy"), crashed], request);
      await claimed([done!]).complete(request);
      const verdicts = await inbox.claim([some("new"), some("done"), some("busy"), again(crashed), some("newer")], request);
      expect(verdicts.map(({ kind }) => kind)).toEqual(["claimed", "completed", "busy", "claimed", "claimed"]);
      for (const i of [0, 3, 4]) expect(await claimed([verdicts[i]!]).complete(request)).toBe("completed");
    });

    it("keeps queues apart", async () => {
      const { inbox } = await create();
      claimed(await inbox.claim([some("a")], request));
      claimed(await inbox.claim([{ ...some("a"), queueUrl: "https://account.queue.example/others" }], request));
    });
  });
}

export function claimed(verdicts: readonly InboxClaimResult[]): InboxClaim {
  const [verdict] = verdicts;
  if (verdict?.kind !== "claimed") throw new Error(`not claimed: ${JSON.stringify(verdict)}`);
  return verdict.claim;
}
