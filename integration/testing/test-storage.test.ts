import { spawn } from "node:child_process";

import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, ContainerClient } from "@azure/storage-blob";
import { ShareClient } from "@azure/storage-file-share";
import { QueueClient } from "@azure/storage-queue";
import { test as base, describe, expect, expectTypeOf } from "vitest";

import { optimisticUpdate } from "../../src/index.js";
import { createStorageFixture, dropResponse, isWrite, openTestStorage, startTestRun } from "../../src/testing.js";

const test = base.extend(createStorageFixture({ container: ContainerClient, table: TableClient, queue: QueueClient, share: ShareClient }));
const names = new Set<string>();

describe("the fixture", () => {
  test("gives a test a container, a table, a queue and a share, which are empty", async ({ storage }) => {
    expectTypeOf(storage.container).toEqualTypeOf<ContainerClient>();
    expectTypeOf(storage.table).toEqualTypeOf<TableClient>();
    names.add(storage.name);
    expect(await storage.container.exists()).toBe(true);
    expect(await storage.share.exists()).toBe(true);
    expect((await storage.queue.getProperties()).approximateMessagesCount).toBe(0);
    await storage.table.createEntity({ partitionKey: "p", rowKey: "r" });
    storage.expectRequests(4);
  });

  test("gives the next test others", async ({ storage }) => {
    expect(names).not.toContain(storage.name);
    const service = BlobServiceClient.fromConnectionString(storage.directConnectionString);
    for (const name of names) expect(await service.getContainerClient(name).exists()).toBe(false);
  });

  test("counts the requests since the last check, and lists those that were not expected", async ({ storage }) => {
    storage.expectRequests(0);
    await storage.container.exists();
    expect(() => storage.expectRequests(2)).toThrow(new RegExp(`^expected 2 requests, but 1 were sent.*GET /devstoreaccount1/${storage.name} 200`, "s"));
    storage.expectRequests(0);
  });

  test("loses responses, also of clients that the code under test creates", async ({ storage }) => {
    const blob = BlobServiceClient.fromConnectionString(storage.connectionString).getContainerClient(storage.name).getBlockBlobClient("counter");
    storage.setFaults(dropResponse({ when: isWrite, times: 1 }));
    await optimisticUpdate(blob, (draft: { n: number }) => ({ n: draft.n + 1 }), { initial: { n: 0 } });
    expect(storage.proxies.blob.faultCount()).toBe(1);
    const stored = await storage.container.getBlockBlobClient("counter").downloadToBuffer();
    expect(JSON.parse(stored.toString())).toEqual({ n: 1 });
    storage.setFaults();
    expect(storage.proxies.blob.rules).toEqual([]);
  });
});

describe("openTestStorage", () => {
  base("needs no SDK but those whose classes it gets", async () => {
    await using storage = await openTestStorage({ queue: QueueClient });
    expectTypeOf(storage.container).toEqualTypeOf<undefined>();
    expect(storage.container).toBeUndefined();
    expect(await storage.queue.exists()).toBe(true);
    await Promise.all([storage.stop(), storage.stop()]);
    await expect(openTestStorage({ contaner: ContainerClient } as never)).rejects.toThrow(/unknown option "contaner"/);
  });

  base("uses the servers of the run in each of its processes", async () => {
    const stop = await startTestRun();
    try {
      const code = `
        import { openTestStorage } from ${JSON.stringify(new URL("../../src/testing.ts", import.meta.url).href)};
        const storage = await openTestStorage();
        console.log(storage.directConnectionString);
        await storage.stop();
      `;
      const outputs = await Promise.all([runScript(code), runScript(code)]);
      await using here = await openTestStorage();
      expect(outputs).toEqual([`${here.directConnectionString}\n`, `${here.directConnectionString}\n`]);
    } finally {
      await stop();
    }
  });
});

function runScript(code: string): Promise<string> {
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (data: Buffer) => (output += data.toString()));
  return new Promise((resolve) => child.once("close", () => resolve(output)));
}
