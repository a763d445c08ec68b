import { describe, expect, it } from "vitest";
import { appendExactlyOnce, jsonBlob, optimisticUpdate, runTransaction, tableEntity } from "../../src/index.js";
import { azurite, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";
import { startCopyingProxy } from "../support/copying-proxy.js";

interface Counter {
  n: number;
}

const increment = (counter: Counter): void => {
  counter.n++;
};

const operations = 40;

/** An operation that has one effect each time, through a proxy. */
interface Subject {
  readonly run: () => Promise<unknown>;
  /** How many effects are stored, read past the proxy. */
  readonly effects: () => Promise<number>;
}

const subjects: Readonly<Record<string, { service: "blobUrl" | "tableUrl"; open: (proxyUrl: string) => Promise<Subject>; requests: (copies: number) => number }>> = {
  appendExactlyOnce: {
    service: "blobUrl",
    open: (proxyUrl) => appendSubject(proxyUrl, false),
    // One read, then a claim and a block each. Every fourth write is a block: after a copy of it, state and content are read.
    requests: (copies) => 1 + 2 * operations + 2 * copies,
  },
  "appendExactlyOnce with uniqueRecords": {
    service: "blobUrl",
    open: (proxyUrl) => appendSubject(proxyUrl, true),
    requests: (copies) => 1 + operations + 2 * copies,
  },
  "optimisticUpdate of a blob": {
    service: "blobUrl",
    async open(proxyUrl) {
      const { containerName } = await freshContainer();
      const blob = containerClient(containerName).getBlockBlobClient("counter");
      await blob.upload('{"n":0}', 7);
      const target = jsonBlob<Counter>(containerClient(containerName, { through: proxyUrl }).getBlockBlobClient("counter"));
      return {
        run: () => optimisticUpdate(target, increment),
        effects: async () => (JSON.parse((await blob.downloadToBuffer()).toString()) as Counter).n,
      };
    },
    requests: (copies) => 2 * operations + copies,
  },
  "optimisticUpdate of an entity": {
    service: "tableUrl",
    async open(proxyUrl) {
      const { tableName, effects } = await counterRow();
      const target = tableEntity<Counter>(tableClient(tableName, { through: proxyUrl }), "p", "r");
      return { run: () => optimisticUpdate(target, increment), effects };
    },
    requests: (copies) => 2 * operations + copies,
  },
  runTransaction: {
    service: "tableUrl",
    async open(proxyUrl) {
      const { tableName, effects } = await counterRow();
      const table = tableClient(tableName, { through: proxyUrl });
      const run = (): Promise<unknown> =>
        runTransaction(table, "p", async (tx) => {
          tx.update({ rowKey: "r", n: (await tx.get<Counter>("r"))!.n + 1 });
        });
      return { run, effects };
    },
    requests: (copies) => 2 * operations + copies,
  },
};

async function appendSubject(proxyUrl: string, uniqueRecords: boolean): Promise<Subject> {
  const { containerName } = await freshContainer();
  const log = containerClient(containerName).getAppendBlobClient("log");
  await log.create();
  const blob = containerClient(containerName, { through: proxyUrl }).getAppendBlobClient("log");
  let records = 0;
  return {
    run: () => appendExactlyOnce(blob, uniqueRecords ? `${records++}\n` : "same\n", { uniqueRecords }),
    effects: async () => (await log.downloadToBuffer()).toString().split("\n").length - 1,
  };
}

async function counterRow(): Promise<{ tableName: string; effects: () => Promise<number> }> {
  const { tableName } = await freshTable();
  const table = tableClient(tableName);
  await table.createEntity({ partitionKey: "p", rowKey: "r", n: 0 });
  return { tableName, effects: async () => (await table.getEntity<Counter>("p", "r")).n };
}

describe.each(Object.entries(subjects))("%s", (_, { service, open, requests }) => {
  it("has its effect once although a proxy carries out every fourth write twice, and reads only after those", async () => {
    await using proxy = await startCopyingProxy(azurite()[service], 4);
    const { run, effects } = await open(proxy.url);
    for (let i = 0; i < operations; i++) await run();
    expect(await effects()).toBe(operations);
    expect(proxy.copies).toBeGreaterThanOrEqual(operations / 4);
    expect(proxy.requests).toBe(requests(proxy.copies));
  });
});
