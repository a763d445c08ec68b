import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { inspectLease, isConcurrencyError, jsonBlob, leasedUpdate, optimisticUpdate, overwrite, DELETE, deleteIfUnchanged, tableEntity } from "../../src/index.js";
import { cutBody, delay, dropResponse, hang, isRead, isWrite, startFaultProxy } from "../../src/testing.js";
import type { FaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";
import { BlobServiceClient, type BlockBlobClient } from "@azure/storage-blob";
import { TableClient } from "@azure/data-tables";

interface Doc {
  n: number;
}
const add = (doc: Doc): void => {
  doc.n++;
};

/** A blob behind a proxy, with the retries of the SDK as they are by default, and the same blob without the proxy. */
async function scene(): Promise<{ proxy: FaultProxy; blob: BlockBlobClient; direct: BlockBlobClient }> {
  const proxy = await startFaultProxy(azurite().blobUrl);
  onTestFinished(() => proxy.stop());
  const { containerName } = await freshContainer();
  const blob = BlobServiceClient.fromConnectionString(connectionString({ blobUrl: proxy.url })).getContainerClient(containerName).getBlockBlobClient("doc");
  const direct = containerClient(containerName).getBlockBlobClient("doc");
  await direct.upload('{"n":0}', 7);
  return { proxy, blob, direct };
}

/** The response of the first write is held back, so that another client acts on what is stored, and then lost. */
function holdThenDropResponse(proxy: FaultProxy): void {
  proxy.setRules([delay(2_000, { at: "response", when: isWrite, times: 1 }), dropResponse({ when: isWrite, times: 1 })]);
}

/** Until the service has stored the first write. */
async function stores(proxy: FaultProxy): Promise<void> {
  await proxy.waitFor((request) => isWrite(request) && request.storageStatus !== undefined);
}

async function stored(blob: BlockBlobClient): Promise<Doc | undefined> {
  return (await blob.exists()) ? (JSON.parse((await blob.downloadToBuffer()).toString()) as Doc) : undefined;
}

describe("one request that gets no response", () => {
  it.each([["a read", isRead], ["a write", isWrite]] as const)("(%s) does not disable the target while new callers keep arriving", async (_, isLost) => {
    const { proxy, blob, direct } = await scene();
    proxy.setRules([hang({ when: isLost, times: 1 })]);
    const calls: Promise<boolean>[] = [];
    for (let i = 0; i < 30; i++) {
      calls.push(optimisticUpdate<Doc>(blob, add, { timeoutInMs: 2_000 }).then(() => true, () => false));
      await sleep(50);
    }
    const succeeded = (await Promise.all(calls)).filter(Boolean).length;
    expect(succeeded).toBe(30);
    expect(await stored(direct)).toEqual({ n: 30 });
  });
});

describe("a body that is cut", () => {
  it("is read again until the time is over, and never reported as an abort", async () => {
    const { proxy, blob } = await scene();
    proxy.setRules([cutBody(3, { when: isRead, times: 12 })]);
    expect((await optimisticUpdate<Doc>(blob, add)).value).toEqual({ n: 1 });
    proxy.setRules([cutBody(3, { when: isRead })]);
    const error: unknown = await optimisticUpdate<Doc>(blob, add, { timeoutInMs: 500 }).catch((e: unknown) => e);
    expect(isConcurrencyError(error, "OPERATION_TIMEOUT")).toBe(true);
  });
});

describe("an overwrite whose response is lost", () => {
  it("does not erase an update that was confirmed before the SDK would send it again", async () => {
    const { proxy, blob, direct } = await scene();
    holdThenDropResponse(proxy);
    const writing = overwrite<Doc>(blob, { n: 100 }).catch((e: unknown) => e);
    await stores(proxy);
    await optimisticUpdate<Doc>(direct, add);
    await writing;
    expect(await stored(direct)).toEqual({ n: 101 });
  });
});

describe("a delete whose response is lost", () => {
  it("is never reported as done to two callers", async () => {
    const { proxy, blob, direct } = await scene();
    proxy.setRules([delay(200, { when: isWrite, times: 1 }), dropResponse({ when: isWrite, times: 1 })]);
    const outcomes = await Promise.all(
      [blob, direct].map((client) =>
        optimisticUpdate<Doc>(client, () => DELETE).then(
          ({ outcome }) => outcome,
          (error: unknown) => (error as { code?: string }).code,
        ),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === "deleted").length).toBeLessThanOrEqual(1);
    expect(await stored(direct)).toBeUndefined();
  });

  it("is a TargetNotFoundError if nothing was there", async () => {
    const { direct } = await scene();
    const { etag = "" } = await direct.getProperties();
    await direct.delete();
    await expect(deleteIfUnchanged(direct, etag)).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
  });
});

describe("a create whose response is lost, and whose result another client deletes", () => {
  it("is not repeated", async () => {
    const { proxy, blob, direct } = await scene();
    await direct.delete();
    holdThenDropResponse(proxy);
    const creating = optimisticUpdate<Doc>(blob, add, { initial: { n: 0 } }).catch((e: unknown) => e);
    await stores(proxy);
    expect(await stored(direct)).toEqual({ n: 1 });
    await direct.delete();
    expect(isConcurrencyError(await creating, "COMMIT_UNKNOWN")).toBe(true);
    expect(await stored(direct)).toBeUndefined();
  });

  it("is not repeated for an entity either", async () => {
    const proxy = await startFaultProxy(azurite().tableUrl);
    onTestFinished(() => proxy.stop());
    const { tableName } = await freshTable();
    const direct = tableClient(tableName);
    const table = TableClient.fromConnectionString(connectionString({ tableUrl: proxy.url }), tableName, { allowInsecureConnection: true });
    holdThenDropResponse(proxy);
    const creating = optimisticUpdate(tableEntity<Doc>(table, "p", "r"), add, { initial: { n: 0 } }).catch((e: unknown) => e);
    await stores(proxy);
    await direct.deleteEntity("p", "r");
    expect(isConcurrencyError(await creating, "COMMIT_UNKNOWN")).toBe(true);
    const rows = [];
    for await (const row of direct.listEntities()) rows.push(row);
    expect(rows).toEqual([]);
  });
});

describe("a schema that never settles", () => {
  it.each([["read", 1], ["to be written", 2]] as const)("for a value that is %s does not keep leasedUpdate beyond its time or its signal, and its lease is released", async (_, hangsAt) => {
    const { direct } = await scene();
    const run = (options: { timeoutInMs?: number; abortSignal?: AbortSignal }, onHang: () => void): Promise<unknown> => {
      let checks = 0;
      const validate = (value: unknown): { value: Doc } | Promise<never> => {
        if (++checks < hangsAt) return { value: value as Doc };
        onHang();
        return new Promise<never>(() => undefined);
      };
      const schema = { "~standard": { version: 1 as const, vendor: "test", validate } };
      return leasedUpdate(jsonBlob<Doc>(direct, { schema }), add, options).catch((error: unknown) => error);
    };
    let hung = false;
    expect(await run({ timeoutInMs: 2_000 }, () => (hung = true))).toMatchObject({ code: "OPERATION_TIMEOUT" });
    expect(hung).toBe(true);
    const stop = new AbortController();
    expect(await run({ abortSignal: stop.signal }, () => setImmediate(() => stop.abort(new Error("enough"))))).toMatchObject({ message: "enough" });
    expect(await inspectLease(direct)).toMatchObject({ state: "available" });
  });
});
