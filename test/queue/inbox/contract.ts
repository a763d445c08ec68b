import { describe, expect, it } from "vitest";

import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "../../../src/index.js";
import { again, deliver } from "./deliveries.js";

/** The time of a contract's run. */
export interface ContractTime {
  readonly pass: (ms: number) => Promise<unknown>;
  /** As deliveries tell it. @defaultValue that of the test */
  readonly service?: () => number;
  /** Whether records are written at a time that passes with `pass`. @defaultValue true */
  readonly movesRecords?: boolean;
}

/** What an inbox in claim mode has to do, whatever it is made of. */
export function inboxContract(name: string, create: () => Promise<{ inbox: Inbox; other: Inbox }>, time: ContractTime): void {
  const { pass, service = () => Date.now(), movesRecords = true } = time;
  const visibilityInMs = 60_000;
  const some = (key: string): InboxDelivery => deliver(key, { visibilityInMs, serviceTime: service });

  describe(`${name}, claim mode`, () => {
    it("lets one delivery of a key start, and knows it to be done afterwards", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some("a")]));
      expect(claim.attempts).toBe(1);
      expect(await claim.complete()).toBe(true);
      expect(await other.claim([some("a")])).toEqual([{ kind: "done" }]);
    });

    it("lets another message with the same key wait until the time of the first is over", async () => {
      const { inbox, other } = await create();
      claimed(await inbox.claim([some("a")]));
      const [verdict] = await other.claim([some("a")]);
      expect(verdict).toMatchObject({ kind: "busy" });
      await pass(2 * visibilityInMs + 100);
      const claim = claimed(await other.claim([some("a")]));
      expect(claim.attempts).toBe(1);
    });

    it("lets the next delivery of the same message take over at once, and counts it", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      const before = claimed(await inbox.claim([first]));
      const after = claimed(await other.claim([again(first)]));
      expect(after.attempts).toBe(2);
      expect(await before.complete()).toBe(false);
      expect(await before.extend()).toMatchObject({ kind: "lost" });
      expect(await after.complete()).toBe(true);
    });

    it.runIf(movesRecords)("lets one of several take over what is overdue", async () => {
      const { inbox, other } = await create();
      claimed(await inbox.claim([some("a")]));
      await pass(2 * visibilityInMs + 100);
      const verdicts = await Promise.all([inbox, other, inbox, other].map((contender) => contender.claim([some("a")])));
      expect(verdicts.flat().map(({ kind }) => kind).toSorted()).toEqual(["busy", "busy", "busy", "claimed"]);
    });

    it("turns an earlier delivery away that arrives late", async () => {
      const { inbox, other } = await create();
      const first = some("a");
      claimed(await inbox.claim([again(first)]));
      expect(await other.claim([first])).toEqual([{ kind: "outdated" }]);
    });

    it("gives the same delivery its claim again, as its first answer may have been lost", async () => {
      const { inbox } = await create();
      const first = some("a");
      claimed(await inbox.claim([first]));
      const claim = claimed(await inbox.claim([first]));
      expect(claim.attempts).toBe(1);
      expect(await claim.complete()).toBe(true);
    });

    it("lets others start as soon as a claim is released", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some("a")]));
      await claim.release();
      claimed(await other.claim([some("a")]));
      expect(await claim.complete()).toBe(false);
    });

    it.runIf(movesRecords)("makes others wait longer if a claim is extended", async () => {
      const { inbox, other } = await create();
      const claim = claimed(await inbox.claim([some("a")]));
      await pass(visibilityInMs);
      expect(await claim.extend()).toMatchObject({ kind: "renewed" });
      await pass(1.5 * visibilityInMs);
      expect(await other.claim([some("a")])).toMatchObject([{ kind: "busy" }]);
      expect(await claim.complete()).toBe(true);
    });

    it("takes the first of several in a batch that share a key", async () => {
      const { inbox } = await create();
      const verdicts = await inbox.claim([some("a"), some("b"), some("a")]);
      expect(verdicts.map(({ kind }) => kind)).toEqual(["claimed", "claimed", "busy"]);
    });

    it("judges each of a batch by itself", async () => {
      const { inbox, other } = await create();
      const crashed = some("crashed");
      const [done] = await other.claim([some("done"), some("busy"), crashed]);
      await claimed([done!]).complete();
      const verdicts = await inbox.claim([some("new"), some("done"), some("busy"), again(crashed), some("newer")]);
      expect(verdicts.map(({ kind }) => kind)).toEqual(["claimed", "done", "busy", "claimed", "claimed"]);
      for (const i of [0, 3, 4]) expect(await claimed([verdicts[i]!]).complete()).toBe(true);
    });

    it("keeps queues apart", async () => {
      const { inbox } = await create();
      claimed(await inbox.claim([some("a")]));
      claimed(await inbox.claim([{ ...some("a"), queue: "others" }]));
    });
  });
}

export function claimed(verdicts: readonly InboxClaimResult[]): InboxClaim {
  const [verdict] = verdicts;
  if (verdict?.kind !== "claimed") throw new Error(`not claimed: ${JSON.stringify(verdict)}`);
  return verdict.claim;
}
