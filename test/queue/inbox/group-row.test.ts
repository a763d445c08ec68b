import { describe, expect, it } from "vitest";

import { decideGroup } from "../../../src/queue/inbox/group-row.js";
import type { GroupRow } from "../../../src/queue/inbox/group-row.js";
import { deliver } from "./deliveries.js";

const now = 1_000_000;
const delivery = deliver("k", { messageId: "m", dequeueCount: 2, group: "g", insertedOn: new Date(now - 5_000) });
const row: GroupRow = {
  state: "claimed", owner: "other", messageId: "n", dequeueCount: 1, recordRowKey: "r", claimDurationInMs: 60_000, lastSequence: undefined, writtenAt: now - 10_000, etag: "e",
};

describe("a delivery and the row of its group", () => {
  it.each<[string, Partial<GroupRow> | undefined, number | undefined, object]>([
    ["no row", undefined, undefined, { kind: "free" }],
    ["released", { state: "released" }, undefined, { kind: "free" }],
    ["claimed by this owner", { owner: "own" }, undefined, { kind: "own" }],
    ["claimed by an earlier delivery of the message", { messageId: "m", dequeueCount: 1 }, undefined, { kind: "free" }],
    ["claimed by a later delivery of the message", { messageId: "m", dequeueCount: 3 }, undefined, { kind: "superseded" }],
    ["claimed by the same delivery, to another consumer", { messageId: "m", dequeueCount: 2 }, undefined, { kind: "superseded" }],
    ["claimed by another message", {}, undefined, { kind: "busy", retryAfterInMs: 50_000 }],
    ["claimed by another message, expired", { writtenAt: now - 60_000 }, undefined, { kind: "free" }],
    ["the first of a sequence, no row", undefined, 1, { kind: "free" }],
    ["not the first of a sequence, no row", undefined, 2, { kind: "gap", lastSequence: 0, retryAfterInMs: 2_000 }],
    ["the next of a sequence", { state: "released", lastSequence: 4 }, 5, { kind: "free" }],
    ["the next of a sequence, claimed", { lastSequence: 4 }, 5, { kind: "busy", retryAfterInMs: 50_000 }],
    ["one after the next of a sequence", { state: "released", lastSequence: 4 }, 6, { kind: "gap", lastSequence: 4, retryAfterInMs: 2_000 }],
    ["one after the next, and nothing has happened for a minute", { state: "released", lastSequence: 4, writtenAt: now - 60_000 }, 6, { kind: "gap", lastSequence: 4, retryAfterInMs: 7_500 }],
    ["one after the next, and nothing has happened for a week", { state: "released", lastSequence: 4, writtenAt: now - 604_800_000 }, 6, { kind: "gap", lastSequence: 4, retryAfterInMs: 600_000 }],
    ["without a sequence, of a group with an order", { state: "released", lastSequence: 4 }, undefined, { kind: "gap", lastSequence: 4, retryAfterInMs: 2_000 }],
    ["the last of a sequence", { state: "released", lastSequence: 4 }, 4, { kind: "sequenceUsed" }],
  ])("%s", (_, found, sequence, decision) => {
    expect(decideGroup(found && { ...row, ...found }, { ...delivery, sequence }, "own", now)).toEqual(decision);
  });
});
