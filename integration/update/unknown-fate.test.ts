import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { CommitUnknownError, createIfNotExists, jsonBlob, optimisticUpdate, DELETE, tableEntity } from "../../src/index.js";
import {
  type FaultResponse,
  type FaultResponseHead,
  type FaultProxy,
  type FaultRule,
  dropResponse,
  isRead,
  isWrite,
  dropRequest,
  rewriteResponse,
  startFaultProxy,
} from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshTable, tableClient } from "../support/clients.js";
import { fastContainer, fastTable } from "../support/fast-clients.js";

interface Doc {
  n: number;
}

/** One subject behind a proxy, and somebody who writes it past the proxy without knowing of the journal. */
interface Scene {
  proxy: FaultProxy;
  add(options?: object): Promise<{ outcome: string; value: Doc; attempts: number }>;
  delete(): Promise<{ outcome: string }>;
  stored(): Promise<Doc | undefined>;
  /** Writes the content as it is, or another one, and drops the journal. */
  foreignWrite(doc?: Doc): Promise<void>;
  /** Changes something, and leaves the journal where it is. */
  politeWrite(): Promise<void>;
  foreignDelete(): Promise<void>;
}

async function blobScene(): Promise<Scene> {
  const proxy = await startFaultProxy(azurite().blobUrl);
  onTestFinished(() => proxy.stop());
  const { containerName } = await freshContainer();
  const truth = containerClient(containerName).getBlockBlobClient("doc");
  const target = jsonBlob<Doc>(fastContainer(connectionString({ blobUrl: proxy.url }), containerName).getBlockBlobClient("doc"));
  const stored = async (): Promise<Doc | undefined> =>
    (await truth.exists()) ? (JSON.parse((await truth.downloadToBuffer()).toString()) as Doc) : undefined;
  return {
    proxy,
    add: (options) => optimisticUpdate(target, (doc) => { doc.n++; }, { initial: { n: 0 }, ...options }),
    delete: () => optimisticUpdate(target, () => DELETE),
    stored,
    foreignWrite: async (doc) => {
      const text = JSON.stringify(doc ?? (await stored()));
      await truth.upload(text, text.length);
    },
    politeWrite: async () => {
      await truth.setHTTPHeaders({ blobContentType: "application/json", blobCacheControl: "no-store" });
    },
    foreignDelete: async () => { await truth.delete(); },
  };
}

async function entityScene(): Promise<Scene> {
  const proxy = await startFaultProxy(azurite().tableUrl);
  onTestFinished(() => proxy.stop());
  const { tableName } = await freshTable();
  const truth = tableClient(tableName);
  const keys = { partitionKey: "p", rowKey: "r" };
  const target = tableEntity<Doc>(fastTable(connectionString({ tableUrl: proxy.url }), tableName), "p", "r");
  const stored = async (): Promise<Doc | undefined> => {
    for await (const { n } of truth.listEntities<Doc>()) return { n };
    return undefined;
  };
  return {
    proxy,
    add: (options) => optimisticUpdate(target, (doc) => { doc.n++; }, { initial: { ...keys, n: 0 }, ...options }),
    delete: () => optimisticUpdate(target, () => DELETE),
    stored,
    foreignWrite: async (doc) => { await truth.upsertEntity({ ...keys, ...(doc ?? (await stored())) }, "Replace"); },
    politeWrite: async () => { await truth.updateEntity({ ...keys, seen: true }, "Merge"); },
    foreignDelete: async () => { await truth.deleteEntity("p", "r"); },
  };
}

/** The write is committed, then something else happens, and the client hears of a failure only. */
function lostAnd(then: () => Promise<void>): FaultRule {
  const failure = { status: 503, headers: {}, body: Buffer.alloc(0) };
  return rewriteResponse(() => then().then(() => failure), { when: isWrite, whenResponse: ({ status }) => status < 300, times: 1 });
}

describe.each([
  ["blob", blobScene],
  ["entity", entityScene],
] as const)("an update of a %s whose answer was lost", (_kind, sceneOf) => {
  let scene: Scene;

  beforeEach(async () => {
    scene = await sceneOf();
    await scene.add(); // creates it, with a journal
    expect(await scene.stored()).toMatchObject({ n: 1 });
  });

  it("is found in the journal", async () => {
    scene.proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    expect(await scene.add()).toMatchObject({ outcome: "updated", value: { n: 2 }, attempts: 1 });
    expect(await scene.stored()).toMatchObject({ n: 2 });
  });

  it("is found in the journal after others wrote on top of it, up to 31 times", async () => {
    scene.proxy.rules = [lostAnd(async () => { await addDirectly(31); })];
    expect(await scene.add()).toMatchObject({ outcome: "updated", value: { n: 2 }, attempts: 1 });
    expect(await scene.stored()).toMatchObject({ n: 33 });
  });

  it("is a CommitUnknownError once it has left the journal, and is not applied again", async () => {
    scene.proxy.rules = [lostAnd(async () => { await addDirectly(32); })];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 34 });
  });

  it("is a CommitUnknownError after a foreign writer dropped the journal, and is not applied again", async () => {
    scene.proxy.rules = [lostAnd(() => scene.foreignWrite())];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 2 });
  });

  it("is a CommitUnknownError also if journaled writes followed on the foreign one", async () => {
    scene.proxy.rules = [lostAnd(() => scene.foreignWrite().then(() => addDirectly(1)))];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 3 });
  });

  it("is found in the journal if a foreign writer left that alone", async () => {
    scene.proxy.rules = [lostAnd(() => scene.politeWrite())];
    expect(await scene.add()).toMatchObject({ outcome: "updated", value: { n: 2 }, attempts: 1 });
    expect(await scene.stored()).toMatchObject({ n: 2 });
  });

  it("is a CommitUnknownError if the target is gone, and does not come back", async () => {
    scene.proxy.rules = [lostAnd(() => scene.foreignDelete())];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toBeUndefined();
  });

  it("is applied again if the caller says that this does no harm", async () => {
    scene.proxy.rules = [lostAnd(() => scene.foreignWrite())];
    expect(await scene.add({ onUnknown: "retry" })).toMatchObject({ outcome: "updated", attempts: 2 });
    expect(await scene.stored()).toMatchObject({ n: 3 });
  });

  it("is a CommitUnknownError without a journal", async () => {
    scene.proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    await expect(scene.add({ journal: false })).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 2 });
  });

  it("is no concern if it never reached the service: it is simply sent again", async () => {
    scene.proxy.rules = [dropRequest({ when: isWrite, times: 3 })];
    expect(await scene.add()).toMatchObject({ outcome: "updated", value: { n: 2 }, attempts: 1 });
    expect(await scene.stored()).toMatchObject({ n: 2 });
  });

  it("is a delete: what is gone may have been deleted by another client", async () => {
    scene.proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    await expect(scene.delete()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toBeUndefined();
  });

  async function addDirectly(times: number): Promise<void> {
    for (let i = 0; i < times; i++) await scene.add({ coalesce: false });
  }
});

describe.each([
  ["blob", blobScene],
  ["entity", entityScene],
] as const)("a create of a %s whose answer was lost", (_kind, sceneOf) => {
  it("is found in the journal", async () => {
    const scene = await sceneOf();
    scene.proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    expect(await scene.add()).toMatchObject({ outcome: "created", value: { n: 1 }, attempts: 1 });
    expect(await scene.stored()).toMatchObject({ n: 1 });
  });

  it.each([1, 40])("is found in the journal after others wrote on top of it, %i times", async (times) => {
    const scene = await sceneOf();
    const others = async (): Promise<void> => {
      for (let i = 0; i < times; i++) await scene.add({ coalesce: false });
    };
    scene.proxy.rules = [lostAnd(others)];
    expect(await scene.add()).toMatchObject({ outcome: "created", value: { n: 1 }, attempts: 1 });
    expect(await scene.stored()).toMatchObject({ n: 1 + times });
  });

  it("is applied on top of another create that was first, if the caller accepts that it may have been deleted", async () => {
    const scene = await sceneOf();
    const other = async (answer: FaultResponse): Promise<FaultResponse> => {
      await scene.add({ coalesce: false });
      return answer;
    };
    const refused = ({ status }: FaultResponseHead): boolean => status === 409;
    scene.proxy.rules = [rewriteResponse(other, { when: isRead, times: 1 }), dropResponse({ whenResponse: refused, times: 1 })];
    expect(await scene.add({ onUnknown: "retry" })).toMatchObject({ outcome: "updated", value: { n: 2 }, attempts: 2 });
    expect(await scene.stored()).toMatchObject({ n: 2 });
    await scene.foreignDelete();
    scene.proxy.rules = [rewriteResponse(other, { when: isRead, times: 1 }), dropResponse({ whenResponse: refused, times: 1 })];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
  });

  it("is a CommitUnknownError without a journal", async () => {
    const scene = await sceneOf();
    scene.proxy.rules = [lostAnd(() => scene.politeWrite())];
    await expect(scene.add({ journal: false })).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 1 });
  });

  it("is a CommitUnknownError after a foreign writer dropped the journal, and is not applied again", async () => {
    const scene = await sceneOf();
    scene.proxy.rules = [lostAnd(() => scene.foreignWrite())];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 1 });
  });

  it("is a CommitUnknownError also if journaled writes followed on the foreign one", async () => {
    const scene = await sceneOf();
    scene.proxy.rules = [lostAnd(() => scene.foreignWrite().then(() => scene.add({ coalesce: false }).then(() => undefined)))];
    await expect(scene.add()).rejects.toThrow(CommitUnknownError);
    expect(await scene.stored()).toMatchObject({ n: 2 });
  });
});

describe("createIfNotExists whose answer was lost", () => {
  it("knows that it was the one that created", async () => {
    const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: isWrite, times: 1 })]);
    onTestFinished(() => proxy.stop());
    const { containerName } = await freshContainer();
    const blob = fastContainer(connectionString({ blobUrl: proxy.url }), containerName).getBlockBlobClient("doc");
    expect(await createIfNotExists(jsonBlob<Doc>(blob), { n: 7 })).toMatchObject({ outcome: "created", value: { n: 7 } });
  });

  it("does not claim to have found what may be its own", async () => {
    const { containerName } = await freshContainer();
    const truth = containerClient(containerName).getBlockBlobClient("doc");
    const proxy = await startFaultProxy(azurite().blobUrl, [lostAnd(async () => { await truth.upload('{"n":7}', 7); })]);
    onTestFinished(() => proxy.stop());
    const blob = fastContainer(connectionString({ blobUrl: proxy.url }), containerName).getBlockBlobClient("doc");
    await expect(createIfNotExists(jsonBlob<Doc>(blob), { n: 7 })).rejects.toThrow(CommitUnknownError);
  });
});
