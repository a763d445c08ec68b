import { expect, it } from "vitest";
import { entityOf, recordOf } from "../../../src/queue/inbox/record.js";

it("the stored column for the duration of a claim is holdInMs, as in the tables that exist", () => {
  const entity = entityOf("p", "r", { state: "claimed", claimDurationInMs: 5_000 });
  expect(entity).toEqual({ partitionKey: "p", rowKey: "r", state: "claimed", holdInMs: 5_000 });
  expect(recordOf({ ...entity, etag: "1" })).toMatchObject({ state: "claimed", claimDurationInMs: 5_000 });
  expect(entityOf("p", "r", { state: "done" })).toEqual({ partitionKey: "p", rowKey: "r", state: "done" });
});
