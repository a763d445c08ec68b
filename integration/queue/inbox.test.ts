import { describe, expect, it } from "vitest";

import { ClaimInbox, CommitInbox } from "../../src/index.js";
import { claimed, inboxContract } from "../../test/queue/inbox/contract.js";
import { groupContract } from "../../test/queue/inbox/group-contract.js";
import { deliver, request } from "../../test/queue/inbox/deliveries.js";
import { freshTable } from "../support/clients.js";

let ahead = 0;

for (const shards of [1, 3]) {
  for (const contract of [inboxContract, groupContract]) {
    contract(
      `a ClaimInbox on Azurite with ${shards} shards`,
      async () => {
        ahead = 0;
        const table = await freshTable();
        return { inbox: new ClaimInbox(table, { shards }), other: new ClaimInbox(table, { shards }) };
      },
      { pass: async (ms) => (ahead += ms), service: () => Date.now() + ahead, movesRecords: false },
    );
  }
}

describe("a ClaimInbox on Azurite", () => {
  it("claims and completes a hundred keys of any characters, of which one is a duplicate", async () => {
    const table = await freshTable();
    const inbox = new ClaimInbox(table);
    const keys = Array.from({ length: 100 }, (_, i) => `${i} /\\#?%'"+&ä€😀`);
    expect(await claimed(await inbox.claim([deliver(keys[50]!)], request)).complete(request)).toBe("completed");
    const verdicts = await inbox.claim(keys.map((key) => deliver(key)), request);
    expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map((_, i) => (i === 50 ? "completed" : "claimed")));
    const claims = verdicts.flatMap((verdict) => (verdict.kind === "claimed" ? [verdict.claim] : []));
    expect(await Promise.all(claims.map((claim) => claim.complete(request)))).toEqual(Array(99).fill("completed"));
  });

  it("purges what is older, of both kinds, and leaves the entities of others alone", async () => {
    const table = await freshTable();
    const claims = new ClaimInbox(table);
    const commits = new CommitInbox(table);
    const verdicts = await claims.claim(Array.from({ length: 120 }, (_, i) => deliver(`k${i}`)), request);
    await Promise.all(verdicts.slice(0, 110).map((verdict) => claimed([verdict]).complete(request)));
    await commits.commit({ delivery: deliver("a"), call: 1, partitionKey: "p\'q" }, [["create", { rowKey: "own" }]], [], request);
    expect(await claims.purge()).toEqual({ deleted: 0, kept: 0 });
    expect(await commits.purge({ olderThanInMs: 0, partitionKey: "p'q" })).toEqual({ deleted: 1, kept: 0 });
    // Handlers of the last ten may be running.
    expect(await claims.purge({ olderThanInMs: 0 })).toEqual({ deleted: 110, kept: 10 });
    const expired = verdicts.slice(110).flatMap((verdict) => (verdict.kind === "claimed" ? [verdict.claim] : []));
    await Promise.all(expired.map((claim) => claim.release(true, request)));
    expect(await claims.purge({ olderThanInMs: 0 })).toEqual({ deleted: 10, kept: 0 });
    const left = [];
    for await (const { rowKey } of table.listEntities()) left.push(rowKey);
    expect(left).toEqual(["own"]);
  });

  it("purges what was written in the same millisecond: timestamps of the service are finer than the clock of a process", async () => {
    const table = await freshTable();
    const inbox = new ClaimInbox(table);
    for (let i = 0; i < 30; i++) {
      await claimed(await inbox.claim([deliver(`k${i}`)], request)).release(true, request);
      expect(await inbox.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    }
  });
});
