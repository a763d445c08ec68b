import { describe, expect, it } from "vitest";

import { containerClient, freshContainer, freshName } from "../support/clients.js";
import { testConditions, type Trial } from "./condition-tests.js";
import { type ContainerRow, containerRows, leaseId } from "./container.rows.js";
import { exchange } from "./exchange.js";
import { liesAbout } from "./row.js";

testConditions(containerRows, prepare);

describe("the checks notice a row that is wrong", () => {
  const names = ["Set Container Metadata", "Lease Container: acquire", "List Blobs"];
  testConditions(containerRows.filter(({ operation }) => names.includes(operation)).flatMap(liesAbout), prepare, it.fails);
});

async function prepare(row: ContainerRow): Promise<Trial> {
  if (row.given === "missing") {
    const container = containerClient(freshName());
    const version = { etag: '"0x8D1111111111111"', lastModified: new Date() };
    return { version, call: (conditions) => row.call(container, conditions), etag: async () => (await container.getProperties()).etag };
  }
  const container = await freshContainer();
  if (row.given === "leased") await container.getBlobLeaseClient(leaseId).acquireLease(-1);
  const { etag = "", lastModified = new Date(0) } = await container.getProperties();
  return {
    version: { etag, lastModified },
    call: (conditions) => row.call(container, conditions),
    etag: async () => (await container.getProperties()).etag,
  };
}

it("a container of the same name is created right after a deletion, which Azure refuses for a while", async () => {
  const container = await freshContainer();
  await container.delete();
  expect((await exchange(() => container.create())).answer).toBe("201");
});
