import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, createServer, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { BlobServiceClient } from "@azure/storage-blob";
import { generate } from "selfsigned";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";

import {
  respondWith,
  dropResponse,
  type FaultProxy,
  hang,
  isBatch,
  isWrite,
  dropRequest,
  replaceEndpoints,
  startAzurite,
  startFaultProxy,
} from "../../src/testing.js";
import { azurite, connectionString, freshContainer, freshQueue, freshTable, tableClient } from "../support/clients.js";

const proxies: FaultProxy[] = [];

async function proxyTo(url: string): Promise<FaultProxy> {
  const proxy = await startFaultProxy(url);
  proxies.push(proxy);
  return proxy;
}

afterEach(async () => {
  await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
});

describe("blobs through the fault proxy", () => {
  it("arrive byte for byte, also when they are large", async () => {
    const container = await freshContainer({ through: await proxyTo(azurite().blobUrl), retries: false });
    const bytes = randomBytes(9 * 1024 * 1024);
    const blob = container.getBlockBlobClient("größe ü/ä b%20c+d");
    await blob.uploadData(bytes, { blockSize: 4 * 1024 * 1024, maxSingleShotSize: 1024 * 1024, concurrency: 3 });
    expect((await blob.downloadToBuffer()).equals(bytes)).toBe(true);
    await container.getBlockBlobClient("empty").upload("", 0);
    expect((await container.getBlockBlobClient("empty").downloadToBuffer()).length).toBe(0);
  });

  it("can be copied within the account, with a source URL that leads through the proxy", async () => {
    const container = await freshContainer({ through: await proxyTo(azurite().blobUrl), retries: false });
    const source = container.getBlockBlobClient("source");
    await source.upload("hello", 5);
    const copy = await container.getBlockBlobClient("copy").beginCopyFromURL(source.url);
    expect((await copy.pollUntilDone()).copyStatus).toBe("success");
  });
});

describe("tables through the fault proxy", () => {
  let proxy: FaultProxy;
  beforeEach(async () => {
    proxy = await proxyTo(azurite().tableUrl);
  });

  it("work, entity group transactions and queries too", async () => {
    const table = await freshTable({ through: proxy, retries: false });
    await table.createEntity({ partitionKey: "p", rowKey: "a", n: 1 });
    await table.submitTransaction([
      ["create", { partitionKey: "p", rowKey: "b", n: 2 }],
      ["update", { partitionKey: "p", rowKey: "a", n: 3 }, "Merge"],
    ]);
    const found = [];
    for await (const entity of table.listEntities<{ n: number }>()) found.push(entity.n);
    expect(found).toEqual([3, 2]);
    expect(proxy.count(isBatch)).toBe(1);
  });

  it("commit a transaction whose answer is dropped", async () => {
    const table = await freshTable({ through: proxy, retries: false });
    proxy.rules = [dropResponse({ when: isBatch })];
    const submitting = table.submitTransaction([["create", { partitionKey: "p", rowKey: "a", n: 1 }]]);
    await expect(submitting).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await tableClient(table.tableName).getEntity("p", "a")).toMatchObject({ n: 1 });
  });

  it("give errors in the form that table clients read", async () => {
    const table = await freshTable({ through: proxy, retries: false });
    proxy.rules = [respondWith(503)];
    await expect(table.getEntity("p", "a")).rejects.toMatchObject({
      statusCode: 503,
      details: { errorCode: "ServerBusy", odataError: { code: "ServerBusy" } },
    });
    await expect(table.submitTransaction([["create", { partitionKey: "p", rowKey: "a" }]])).rejects.toMatchObject({ statusCode: 503 });
  });

  it("are retried by the SDK until the faults are over", async () => {
    const table = await freshTable({ through: proxy });
    proxy.rules = [respondWith(503, { times: 1, headers: { "retry-after": "0" } })];
    await table.createEntity({ partitionKey: "p", rowKey: "a" });
    expect(proxy.log.map(({ status }) => status)).toEqual([503, 204]);
  });
});

describe("queues through the fault proxy", () => {
  it("work, and a lost answer leaves the message behind", async () => {
    const proxy = await proxyTo(azurite().queueUrl);
    const queue = await freshQueue({ through: proxy, retries: false });
    await queue.sendMessage("one");
    proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    await expect(queue.sendMessage("two")).rejects.toMatchObject({ code: "ECONNRESET" });
    const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 10 });
    expect(receivedMessageItems.map((item) => item.messageText)).toEqual(["one", "two"]);
    for (const { messageId, popReceipt } of receivedMessageItems) await queue.deleteMessage(messageId, popReceipt);
    expect((await queue.peekMessages()).peekedMessageItems).toEqual([]);
  });
});

describe("connections of the fault proxy", () => {
  it("are kept alive, and cutting one leaves its siblings alone", async () => {
    const proxy = await proxyTo(azurite().blobUrl);
    const container = await freshContainer({ through: proxy, retries: false });
    proxy.rules = [dropResponse({ when: ({ path }) => path.endsWith("/bad") }), dropRequest({ when: ({ path }) => path.endsWith("/worse") })];
    for (let round = 0; round < 5; round++) {
      const names = Array.from({ length: 30 }, (_, i) => (i % 10 === 3 ? "bad" : i % 10 === 7 ? "worse" : `good-${i}`));
      const results = await Promise.allSettled(names.map((name) => container.getBlockBlobClient(name).upload("x", 1)));
      const failed = names.filter((_, i) => results[i]!.status === "rejected");
      expect(failed).toEqual(names.filter((name) => !name.startsWith("good")));
    }
  });

  it("reuse one upstream connection and pass headers on in their order and spelling", async () => {
    const seen: { rawHeaders: string[]; port: number | undefined }[] = [];
    const storage = createServer((message, answer) => {
      seen.push({ rawHeaders: message.rawHeaders, port: message.socket.remotePort });
      message.resume().on("end", () => answer.writeHead(201, "Very Created", ["X-Ms-Odd", "1", "x-ms-odd", "2", "ETag", '"e"']).end("ok"));
    });
    await new Promise<void>((resolve) => storage.listen(0, "127.0.0.1", resolve));
    const agent = new Agent({ keepAlive: true });
    try {
      const proxy = await proxyTo(`http://127.0.0.1:${(storage.address() as AddressInfo).port}/account/`);
      expect(proxy.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/account$/);
      for (let i = 0; i < 2; i++) {
        const answer = await new Promise<{ rawHeaders: string[]; statusMessage: string | undefined; body: string }>((resolve, reject) => {
          const options = { method: "PUT", agent, headers: { "X-ODD": "One", Zeta: "2" } };
          const outgoing = request(`${proxy.url}/a%2Fb?x=%20`, options, (incoming) => {
            let body = "";
            incoming.on("data", (chunk: Buffer) => (body += chunk.toString()));
            incoming.on("end", () => resolve({ rawHeaders: incoming.rawHeaders, statusMessage: incoming.statusMessage, body }));
          });
          outgoing.on("error", reject).end();
        });
        expect(answer).toMatchObject({ statusMessage: "Very Created", body: "ok" });
        expect(answer.rawHeaders.slice(0, 6)).toEqual(["X-Ms-Odd", "1", "x-ms-odd", "2", "ETag", '"e"']);
      }
      expect(seen[0]!.port).toBe(seen[1]!.port);
      expect(seen[0]!.rawHeaders).toEqual(expect.arrayContaining(["X-ODD", "One", "Zeta", "2", "Host", new URL(proxy.url).host]));
      expect(proxy.log[0]).toMatchObject({ url: "/account/a%2Fb?x=%20", path: "/account/a%2Fb" });
    } finally {
      agent.destroy();
      storage.closeAllConnections();
      storage.close();
    }
  });

  it("are cut when the storage cannot be reached", async () => {
    const closed = await startFaultProxy(azurite().blobUrl);
    await closed.stop();
    const proxy = await proxyTo(closed.url);
    const container = await freshContainer({ through: proxy, retries: false });
    await expect(container.getProperties()).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(proxy.log).toMatchObject([{ outcome: "failed", status: undefined, storageStatus: undefined }]);
  });

  it("are all closed by stop(), idle and hanging ones, and the port is free again", async () => {
    const proxy = await startFaultProxy(azurite().blobUrl);
    const container = await freshContainer({ through: proxy, retries: false });
    await container.getProperties();
    proxy.rules = [hang()];
    const hanging = expect(container.getProperties()).rejects.toMatchObject({ code: "ECONNRESET" });
    await proxy.waitFor(({ outcome }) => outcome === "pending");
    const idle = connect({ host: "127.0.0.1", port: Number(new URL(proxy.url).port) });
    await new Promise((resolve) => idle.once("connect", resolve));
    const idleClosed = new Promise((resolve) => idle.once("close", resolve));

    await Promise.all([proxy.stop(), proxy.stop()]);
    await Promise.all([hanging, idleClosed]);
    await expect(container.getProperties()).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });

  it("must be http or https, and are refused otherwise", async () => {
    await expect(startFaultProxy("ftp://127.0.0.1/")).rejects.toThrow(TypeError);
    await expect(startFaultProxy("http://127.0.0.1:1", [], { ca: "certificate" })).rejects.toThrow(TypeError);
  });

  it("may use TLS: they get their own name as the host, and their certificate is checked", async () => {
    const altNames = [{ type: 7 as const, ip: "127.0.0.1" }];
    const { cert, private: key } = await generate([{ name: "commonName", value: "127.0.0.1" }], { extensions: [{ name: "basicConstraints", cA: true }, { name: "subjectAltName", altNames }] });
    const folder = await mkdtemp(join(tmpdir(), "tls-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await Promise.all([writeFile(join(folder, "cert.pem"), cert), writeFile(join(folder, "key.pem"), key)]);
    await using secure = await startAzurite({ args: ["--cert", join(folder, "cert.pem"), "--key", join(folder, "key.pem")] });
    expect(secure.blobUrl).toMatch(/^https:/);

    await using proxy = await startFaultProxy(secure.blobUrl, [dropResponse({ when: isWrite, times: 1 })], { ca: cert });
    const client = BlobServiceClient.fromConnectionString(replaceEndpoints(secure.connectionString, { blobUrl: proxy.url })).getContainerClient("secure");
    await client.createIfNotExists();
    expect(await client.exists()).toBe(true);
    expect(proxy.faultCount()).toBe(1);

    await using untrusting = await startFaultProxy(secure.blobUrl);
    const rejected = BlobServiceClient.fromConnectionString(replaceEndpoints(secure.connectionString, { blobUrl: untrusting.url }), { retryOptions: { maxTries: 1 } });
    await expect(rejected.getContainerClient("secure").exists()).rejects.toThrow();
    expect(untrusting.log.at(-1)?.outcome).toBe("failed");
  });

  it("are used by whoever gets the connection string with the replaced endpoint", async () => {
    const proxy = await proxyTo(azurite().blobUrl);
    const replaced = connectionString({ blobUrl: proxy.url });
    expect(replaced).toContain(`BlobEndpoint=${proxy.url};`);
    expect(replaced).toContain(`TableEndpoint=${azurite().tableUrl};`);
    expect(replaced.match(/BlobEndpoint=/g)).toHaveLength(1);
  });
});
