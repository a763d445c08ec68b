import { AzureNamedKeyCredential, AzureSASCredential, generateTableSas, TableClient } from "@azure/data-tables";
import { BlockBlobClient, ContainerSASPermissions } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { optimisticUpdate, jsonBlob, tableEntity, type UpdateTarget } from "../../src/index.js";
import { emulatorAccount, type FaultProxy, isWrite, type LoggedRequest, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";

interface Doc {
  n: number;
}

/** By whose rights a request was made. */
function rightsOf({ headers, query }: LoggedRequest): string {
  return query.get("sig") ?? (headers["authorization"] === undefined ? "none" : "key");
}

async function addTenTimes<T extends Doc>(...targets: UpdateTarget<T, Doc>[]): Promise<void> {
  const add = (target: UpdateTarget<T, Doc>) => optimisticUpdate(target, (doc) => { doc.n++; });
  await Promise.all(Array.from({ length: 10 }, () => targets.map(add)).flat());
}

describe("concurrent updates of one blob", () => {
  let proxy: FaultProxy;
  let byKey: BlockBlobClient;
  let bySas: BlockBlobClient;
  let byOtherSas: BlockBlobClient;
  let stored: () => Promise<Doc>;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    const truth = containerClient(containerName).getBlockBlobClient("doc");
    await truth.upload('{"n":0}', 7);
    stored = async () => JSON.parse((await truth.downloadToBuffer()).toString()) as Doc;
    const container = containerClient(containerName, { through: proxy });
    byKey = container.getBlockBlobClient("doc");
    const sas = async (minutes: number): Promise<BlockBlobClient> => {
      const expiresOn = new Date(Date.now() + minutes * 60_000);
      const url = new URL(await container.generateSasUrl({ permissions: ContainerSASPermissions.parse("rw"), expiresOn }));
      return new BlockBlobClient(`${byKey.url}${url.search}`);
    };
    [bySas, byOtherSas] = [await sas(10), await sas(20)];
  });

  afterEach(() => proxy.stop());

  it("through a key and two signatures travel under the rights of their own callers", async () => {
    await addTenTimes(jsonBlob<Doc>(byKey), jsonBlob<Doc>(bySas), jsonBlob<Doc>(byOtherSas));
    expect(await stored()).toEqual({ n: 30 });
    const signature = (blob: BlockBlobClient): string => new URL(blob.url).searchParams.get("sig")!;
    for (const rights of ["key", signature(bySas), signature(byOtherSas)]) {
      expect(proxy.count((r) => isWrite(r) && r.status === 201 && rightsOf(r) === rights), rights.slice(0, 3)).toBeGreaterThan(0);
    }
  });

  it("are refused to the caller without the right alone", async () => {
    const readOnly = new URL(
      await byKey.generateSasUrl({ permissions: ContainerSASPermissions.parse("r"), expiresOn: new Date(Date.now() + 600_000) }),
    );
    const reader = jsonBlob<Doc>(new BlockBlobClient(readOnly.href));
    const writer = jsonBlob<Doc>(byKey);
    const add = (target: UpdateTarget<Doc>) => optimisticUpdate(target, (doc) => { doc.n++; });
    const results = await Promise.allSettled([add(writer), add(reader), add(writer), add(reader)]);
    expect(results).toMatchObject([{ value: {} }, { reason: { statusCode: 403 } }, { value: {} }, { reason: { statusCode: 403 } }]);
    expect(await stored()).toEqual({ n: 2 });
  });

  it("are combined over clients that come from one container client, as they share its credentials", async () => {
    const container = containerClient(byKey.containerName, { through: proxy });
    await addTenTimes(jsonBlob<Doc>(container.getBlockBlobClient("doc")), jsonBlob<Doc>(container.getBlockBlobClient("doc")));
    expect(await stored()).toEqual({ n: 20 });
    expect(proxy.requests).toBeLessThanOrEqual(3);
  });

  it("are not combined over clients that were made apart", async () => {
    const apart = () => jsonBlob<Doc>(containerClient(byKey.containerName, { through: proxy }).getBlockBlobClient("doc"));
    await addTenTimes(apart(), apart());
    expect(await stored()).toEqual({ n: 20 });
    // Each reads for itself and writes for itself, and one of them loses the race.
    expect(proxy.requests).toBeGreaterThanOrEqual(4);
  });
});

describe("concurrent updates of one entity", () => {
  it("through a key and a signature travel under the rights of their own callers", async () => {
    const proxy = await startFaultProxy(azurite().tableUrl);
    try {
      const { tableName } = await freshTable();
      await tableClient(tableName).createEntity({ partitionKey: "p", rowKey: "r", n: 0 });
      const credential = new AzureNamedKeyCredential(emulatorAccount.name, emulatorAccount.key);
      const sas = generateTableSas(tableName, credential, {
        permissions: { query: true, update: true },
        expiresOn: new Date(Date.now() + 600_000),
      });
      const options = { allowInsecureConnection: true };
      const byKey = new TableClient(proxy.url, tableName, credential, options);
      const bySas = new TableClient(proxy.url, tableName, new AzureSASCredential(sas), options);
      expect(bySas.url).toBe(byKey.url);
      await addTenTimes(tableEntity<Doc>(byKey, "p", "r"), tableEntity<Doc>(bySas, "p", "r"));
      expect(await tableClient(tableName).getEntity("p", "r")).toMatchObject({ n: 20 });
      const writesBy = (rights: (by: string) => boolean) => proxy.count((r) => isWrite(r) && r.status === 204 && rights(rightsOf(r)));
      expect(writesBy((by) => by === "key")).toBeGreaterThan(0);
      expect(writesBy((by) => by !== "key" && by !== "none")).toBeGreaterThan(0);
    } finally {
      await proxy.stop();
    }
  });
});
