import type { ContainerClient } from "@azure/storage-blob";
import { beforeAll, describe, expect, it } from "vitest";

import { freshContainer } from "../support/clients.js";
import { containerLeaseAnswers, type ContainerLeaseRow, containerLeaseRows } from "./container-lease.rows.js";
import { leaseId as own } from "./container.rows.js";
import { exchange } from "./exchange.js";
import { untilExpired } from "./until-expired.js";

/** Each row of container operations under a lease. */
export function testContainerLeases(): void {
  const another = "9c1f9f0a-0b0d-4a39-8d13-52b4c1bb1c44";
  const expired = new Map<ContainerLeaseRow, ContainerClient>();

  beforeAll(async () => {
    for (const row of containerLeaseRows) expired.set(row, await leased(15));
  });

  async function leased(seconds: number): Promise<ContainerClient> {
    const container = await freshContainer();
    await container.getBlobLeaseClient(own).acquireLease(seconds);
    return container;
  }

  async function answerOf({ row, sendsId }: ContainerLeaseRow, container: ContainerClient, leaseId?: string): Promise<string> {
    const conditions: object = leaseId === undefined ? {} : { leaseId };
    const { answer, sent } = await exchange(() => row.call(container, conditions));
    expect(sent("x-ms-lease-id")).toBe(sendsId ? leaseId : undefined);
    return /^2\d\d$/.test(answer) ? "passes" : answer;
  }

  describe.each(containerLeaseRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
    const wrong = (refusal: string): string => (row.sendsId ? refusal : "passes");

    it(row.lease === "required" ? "is refused on a leased container without the id" : "needs no id on a leased container", async () => {
      expect(await answerOf(row, await leased(-1))).toBe(row.lease === "required" ? containerLeaseAnswers.missing : "passes");
    });

    it("goes through on a leased container with its id", async () => {
      expect(await answerOf(row, await leased(-1), own)).toBe("passes");
    });

    it(row.sendsId ? "is refused on a leased container with another id" : "goes through with another id, which is not sent", async () => {
      expect(await answerOf(row, await leased(-1), another)).toBe(wrong(containerLeaseAnswers.mismatch));
    });

    it(row.sendsId ? "is refused with an id on a container that was never leased" : "goes through on a container that was never leased", async () => {
      expect(await answerOf(row, await freshContainer(), own)).toBe(wrong(containerLeaseAnswers.neverLeased));
    });
  });

  describe("when the lease has run out", () => {
    it.each(containerLeaseRows.map((row) => [row.operation, row] as const))("%s goes through without the id, and not with it", async (_operation, row) => {
      const container = expired.get(row)!;
      await untilExpired(container);
      expect(await answerOf(row, container, own)).toBe(row.sendsId ? containerLeaseAnswers.expired.azurite : "passes");
      expect(await answerOf(row, container)).toBe("passes");
    });
  });

  it("a blob in a leased container is written as if there were no lease", async () => {
    const container = await leased(-1);
    expect((await exchange(() => container.getBlockBlobClient("blob").upload("x", 1))).answer).toBe("201");
  });
}
