import { jsonBlob, tableEntity, type UpdateTarget } from "../../src/index.js";
import { type FaultProxy, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";
import { fastContainer, fastTable } from "../support/fast-clients.js";

/** What tests of both kinds of targets store. */
export interface Doc {
  n: number;
}

/** A blob or an entity that does not exist yet, with a proxy in front of it. */
export interface SubjectOfTest {
  readonly proxy: FaultProxy;
  /** What the proxy sees. A new client each time: updates through two of them are never combined. */
  client(): UpdateTarget<Doc>;
  /** The value to create it with. */
  initial(n: number): Doc;
  /** What is really stored, read past the proxy. */
  stored(): Promise<number | undefined>;
  /** Creates or replaces it past the proxy. */
  store(n: number): Promise<void>;
  delete(): Promise<void>;
}

export const kinds = ["blob", "entity"] as const;

export function subjectOf(kind: (typeof kinds)[number]): Promise<SubjectOfTest> {
  return kind === "blob" ? blobSubject() : entitySubject();
}

async function blobSubject(): Promise<SubjectOfTest> {
  const proxy = await startFaultProxy(azurite().blobUrl);
  const { containerName } = await freshContainer();
  const blob = containerClient(containerName).getBlockBlobClient("doc");
  const through = connectionString({ blobUrl: proxy.url });
  return {
    proxy,
    client: () => jsonBlob<Doc>(fastContainer(through, containerName).getBlockBlobClient("doc")),
    initial: (n) => ({ n }),
    async stored() {
      return (await blob.exists()) ? (JSON.parse((await blob.downloadToBuffer()).toString()) as Doc).n : undefined;
    },
    async store(n) {
      const text = JSON.stringify({ n });
      await blob.upload(text, text.length);
    },
    async delete() {
      await blob.delete();
    },
  };
}

async function entitySubject(): Promise<SubjectOfTest> {
  const proxy = await startFaultProxy(azurite().tableUrl);
  const { tableName } = await freshTable();
  const table = tableClient(tableName);
  const through = connectionString({ tableUrl: proxy.url });
  const keys = { partitionKey: "p", rowKey: "r" };
  return {
    proxy,
    // The tests of both kinds use only what a blob and an entity have in common.
    client: () => tableEntity<Doc>(fastTable(through, tableName), "p", "r") as unknown as UpdateTarget<Doc>,
    initial: (n) => ({ n }),
    async stored() {
      for await (const { n } of table.listEntities<Doc>()) return n;
      return undefined;
    },
    async store(n) {
      await table.upsertEntity({ ...keys, n }, "Replace");
    },
    async delete() {
      await table.deleteEntity("p", "r");
    },
  };
}
