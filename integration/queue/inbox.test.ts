import { describe, expect, it } from "vitest";

import { TableInbox } from "../../src/index.js";
import { claimed, inboxContract } from "../../test/queue/inbox/contract.js";
import { deliver } from "../../test/queue/inbox/deliveries.js";
import { freshTable } from "../support/clients.js";

let ahead = 0;

inboxContract(
  "a TableInbox on Azurite",
  async () => {
    ahead = 0;
    const table = await freshTable();
    return { inbox: new TableInbox(table), other: new TableInbox(table) };
  },
  { pass: async (ms) => (ahead += ms), service: () => Date.now() + ahead, movesRecords: false },
);

describe("a TableInbox on Azurite", () => {
  it("claims and completes a hundred keys of any characters, of which one is a duplicate", async () => {
    const table = await freshTable();
    const inbox = new TableInbox(table);
    const keys = Array.from({ length: 100 }, (_, i) => `${i} /\\#?%'"+&ä€😀`);
    expect(await claimed(await inbox.claim([deliver(keys[50]!)])).complete()).toBe(true);
    const verdicts = await inbox.claim(keys.map((key) => deliver(key)));
    expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map((_, i) => (i === 50 ? "done" : "claimed")));
    const claims = verdicts.flatMap((verdict) => (verdict.kind === "claimed" ? [verdict.claim] : []));
    expect(await Promise.all(claims.map((claim) => claim.complete()))).toEqual(Array(99).fill(true));
  });

  it("purges what is older, in both modes, and leaves the entities of others alone", async () => {
    const table = await freshTable();
    const claims = new TableInbox(table);
    const commits = new TableInbox(table, { mode: "commit" });
    const verdicts = await claims.claim(Array.from({ length: 120 }, (_, i) => deliver(`k${i}`)));
    await Promise.all(verdicts.slice(0, 110).map((verdict) => claimed([verdict]).complete()));
    await commits.commit(deliver("a"), 1, "p'q", [["create", { partitionKey: "p'q", rowKey: "own" }]]);
    expect(await claims.purge()).toBe(0);
    expect(await claims.purge({ olderThan: new Date(Date.now() + 5_000), partitionKey: "p'q" })).toBe(1);
    expect(await claims.purge({ olderThan: new Date(Date.now() + 5_000) })).toBe(120);
    const left = [];
    for await (const { rowKey } of table.listEntities()) left.push(rowKey);
    expect(left).toEqual(["own"]);
  });
});
