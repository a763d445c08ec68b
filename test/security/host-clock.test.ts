import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { ClaimInbox } from "../../src/index.js";
import { ClockService } from "../once/fakes.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { deliver, request } from "../queue/inbox/deliveries.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

const day = 86_400_000;
const queue = new FakeQueue();
let inbox: ClaimInbox;

beforeEach(async () => {
  vi.useFakeTimers({ now: Date.parse("2030-01-03T00:00:00Z") });
  const service = new ClockService();
  // The clock of this host is ahead.
  service.aheadInMs = -2 * day;
  inbox = new ClaimInbox(new FakeTransactionTable(service));
  const claiming = inbox.claim([deliver("k", { group: "g", sequence: 1 })], request);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await claiming).toMatchObject([{ kind: "claimed" }]);
});
afterEach(() => {
  vi.useRealTimers();
});

it("forget on a host whose clock is days ahead does not delete the claim of a handler that runs", async () => {
  await expect(inbox.forget(queue, "k")).rejects.toMatchObject({ code: "CONFLICT" });
  await vi.advanceTimersByTimeAsync(120_000 + 15 * 60_000);
  expect(await inbox.forget(queue, "k")).toBe(true);
});

it("nor does skip end the claim of its group", async () => {
  await expect(inbox.skip(queue, "g", 1)).rejects.toMatchObject({ code: "CONFLICT" });
  await vi.advanceTimersByTimeAsync(120_000 + 15 * 60_000);
  expect(await inbox.skip(queue, "g", 1)).toBe(true);
});
