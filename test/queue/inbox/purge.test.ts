import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { ClaimInbox } from "../../../src/index.js";
import type { InboxClaim, InboxDelivery } from "../../../src/index.js";
import { FakeTable } from "../fakes/fake-table.js";
import { storageError } from "../fakes/faults.js";
import { claimed } from "./contract.js";
import { again, deliver, request } from "./deliveries.js";

const minute = 60_000;
let table: FakeTable;
let inbox: ClaimInbox;

beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 1 });
  table = new FakeTable();
  inbox = new ClaimInbox(table);
});
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const claim = async (delivery: InboxDelivery): Promise<InboxClaim> => claimed(await inbox.claim([delivery], request));
const purgeAll = (): Promise<unknown> => inbox.purge({ olderThanInMs: 0 });

it("keeps a claim whose handler may be running: no second handler of the key starts", async () => {
  await claim(deliver("k"));
  await pass(minute);
  expect(await purgeAll()).toEqual({ deleted: 0, kept: 1 });
  expect(await new ClaimInbox(table).claim([deliver("k")], request)).toMatchObject([{ kind: "busy" }]);
});

it("deletes a claim 15 minutes after it has expired, counted from its last renewal: clocks may differ by that much", async () => {
  const held = await claim(deliver("k", { claimDurationInMs: 10 * minute }));
  await pass(9 * minute);
  const renewed = held.renew(request);
  await pass(1_000);
  await renewed;
  await pass(24 * minute);
  expect(await purgeAll()).toEqual({ deleted: 0, kept: 1 });
  await pass(minute);
  expect(await purgeAll()).toEqual({ deleted: 1, kept: 0 });
});

it("deletes records of completed and released keys whatever their age, if the caller says so", async () => {
  const [done, failed] = [await claim(deliver("done")), await claim(deliver("failed"))];
  const ended = Promise.all([done.complete(request), failed.release(true, request)]);
  await pass(1_000);
  await ended;
  expect(await purgeAll()).toEqual({ deleted: 2, kept: 0 });
});

it("keeps a claim that does not say how long it lasts, or when it was written", async () => {
  const delivery = deliver("k");
  await claim(delivery);
  await claim(deliver("l"));
  const [first, second] = [...table.rows.values()];
  Object.assign(first!, { holdInMs: "x" });
  Object.assign(second!, { timestamp: "" });
  await pass(86_400_000);
  expect(await purgeAll()).toEqual({ deleted: 0, kept: 2 });
  expect(await new ClaimInbox(table).claim([again(delivery)], request)).toMatchObject([{ kind: "claimed" }]);
});

it("asks the service for the duration of a claim, too", async () => {
  const list = vi.spyOn(table, "listEntities");
  await purgeAll();
  expect(list.mock.calls[0]![0]).toMatchObject({ queryOptions: { select: expect.arrayContaining(["state", "holdInMs", "Timestamp"]) as string[] } });
});

it("says so if the table does not exist", async () => {
  vi.spyOn(table, "listEntities").mockImplementation(() => {
    throw storageError(404, "TableNotFound");
  });
  await expect(purgeAll()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
});
