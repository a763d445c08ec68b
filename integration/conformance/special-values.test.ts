import { expect, it } from "vitest";

import { freshContainer } from "../support/clients.js";
import { exchange } from "./exchange.js";
import { type SpecialSubject, specialValueRows } from "./special-values.rows.js";

async function subject(): Promise<SpecialSubject> {
  const container = await freshContainer();
  const leaseId = "3a3a1b1e-5d8e-4c55-9f5c-1d2e3f4a5b66";
  const append = container.getAppendBlobClient("append");
  const leased = container.getBlockBlobClient("leased");
  await container.getBlockBlobClient("block").upload("old", 3, { tags: { a: "b" } });
  await container.getPageBlobClient("page").create(512, { blobSequenceNumber: 5 });
  await append.create();
  await append.appendBlock("old", 3);
  await leased.upload("old", 3);
  await leased.getBlobLeaseClient(leaseId).acquireLease(-1);
  return { container, leaseId };
}

it.each(specialValueRows.map((row) => [row.operation, row.azuriteAnswer ?? row.answer, row] as const))("%s: %s", async (_operation, expected, row) => {
  const fresh = await subject();
  expect((await exchange(() => row.call(fresh))).answer).toBe(expected);
});
