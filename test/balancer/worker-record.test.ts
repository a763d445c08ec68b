import { describe, expect, it } from "vitest";
import { formatWorker, parseWorker, readListing } from "../../src/balancer/worker-record.js";
import type { WorkerRecord } from "../../src/balancer/worker-record.js";
import type { LockStatus } from "../../src/lock/lock-options.js";

const id = "0f8fad5b-d9cb-469f-a165-70867728950e";

async function* listingOf(locks: Record<string, string | undefined>, state: LockStatus["state"] = "leased"): AsyncGenerator<LockStatus> {
  for (const [name, data] of Object.entries(locks)) {
    yield await Promise.resolve({ name, data, state, duration: "fixed", holder: "h", acquiredOn: undefined, etag: undefined, epoch: 1, fair: false });
  }
}

describe("what a worker writes into its locks", () => {
  it.each<WorkerRecord>([
    { id, generation: 1, limit: Infinity, data: undefined },
    { id, generation: 12, limit: 0, data: "" },
    { id, generation: 3, limit: 7, data: "a.b\nc.-" },
  ])("is read as it was written: $data", (worker) => {
    expect(parseWorker(formatWorker(worker))).toEqual(worker);
  });

  it.each([undefined, "", "data of another program", `${id}.1`, `${id}.x.1`, `${id}.1.-1`])("is not mistaken for what others write: %s", (text) => {
    expect(parseWorker(text)).toBeUndefined();
  });
});

describe("a listing", () => {
  it("counts the newer of two member locks of a worker, whichever has the larger number", async () => {
    const older = formatWorker({ id, generation: 1, limit: 5, data: undefined });
    const newer = formatWorker({ id, generation: 2, limit: 1, data: undefined });
    for (const [first, second] of [[older, newer], [newer, older]]) {
      const { workers, memberSlots } = await readListing("n", 2, listingOf({ "n/members/0": first, "n/members/1": second }));
      expect([...workers]).toEqual([[id, 1]]);
      expect([...memberSlots]).toEqual([0, 1]);
    }
  });

  it.each(["available", "expired", "broken"] as const)("shows neither workers nor owners whose lease is %s", async (state) => {
    const data = formatWorker({ id, generation: 1, limit: 5, data: undefined });
    const { workers, owners } = await readListing("n", 1, listingOf({ "n/members/0": data, "n/shards/0": data }, state));
    expect([workers.size, owners]).toEqual([0, [undefined]]);
  });
});
