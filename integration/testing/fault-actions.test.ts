import { text } from "node:stream/consumers";

import { BlobSASPermissions, type BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { readTarget, textBlob } from "../../src/index.js";
import {
  respondWith,
  cutBody,
  delay,
  dropResponse,
  type FaultProxy,
  hang,
  isWrite,
  dropRequest,
  rewriteResponse,
  startFaultProxy,
} from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";

let proxy: FaultProxy;
/** Through the proxy, without retries. */
let blob: BlockBlobClient;
/** Past the proxy: what is really there. */
let truth: BlockBlobClient;
let etag: string;

beforeEach(async () => {
  proxy = await startFaultProxy(azurite().blobUrl);
  const container = await freshContainer({ through: proxy, retries: false });
  blob = container.getBlockBlobClient("doc");
  truth = containerClient(container.containerName).getBlockBlobClient("doc");
  etag = (await truth.upload("old", 3)).etag!;
});

afterEach(async () => {
  await proxy.stop();
});

async function content(): Promise<string> {
  return (await truth.downloadToBuffer()).toString();
}

function sasOf(client: BlockBlobClient): Promise<string> {
  return client.generateSasUrl({ permissions: BlobSASPermissions.parse("r"), expiresOn: new Date(Date.now() + 600_000) });
}

function uploadIfMatch(abortSignal?: AbortSignal) {
  return blob.upload("new", 3, { conditions: { ifMatch: etag }, ...(abortSignal && { abortSignal }) });
}

describe("cutBody", () => {
  it("gives the head of the answer and so many bytes, then cuts the connection", async () => {
    const large = "x".repeat(100_000);
    await truth.upload(large, large.length);
    proxy.rules = [cutBody(1_000)];
    const response = await fetch(await sasOf(blob));
    expect(response.headers.get("content-length")).toBe("100000");
    const received: Uint8Array[] = [];
    const read = async (): Promise<void> => {
      for await (const chunk of response.body!) received.push(chunk);
    };
    await expect(read()).rejects.toThrow();
    expect(Buffer.concat(received)).toHaveLength(1_000);
    expect(proxy.log).toMatchObject([{ method: "GET", outcome: "cut", status: 200, ruleNames: ["cut-body"] }]);
  });

  it("lets a shorter answer through", async () => {
    proxy.rules = [cutBody(3)];
    expect(await text((await blob.download()).readableStreamBody!)).toBe("old");
    expect(() => cutBody(-1)).toThrow(RangeError);
  });

  it("is what the SDK takes for an abort, and a read of a target for a reason to read again", async () => {
    proxy.rules = [cutBody(1)];
    await expect(text((await blob.download()).readableStreamBody!)).rejects.toMatchObject({ name: "AbortError" });
    proxy.reset([cutBody(1, { times: 1 })]);
    expect((await readTarget(textBlob(blob))).value).toBe("old");
    expect(proxy.requests).toBe(2);
  });
});

describe("dropResponse", () => {
  it("lets the storage commit and the client see a broken connection", async () => {
    proxy.rules = [dropResponse({ when: isWrite })];
    await expect(uploadIfMatch()).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await content()).toBe("new");
    expect(proxy.log).toMatchObject([{ method: "PUT", outcome: "cut", status: undefined, storageStatus: 201, ruleNames: ["drop-response"] }]);
  });

  it("turns into a 412 for a client that retries, as on the real service", async () => {
    proxy.rules = [dropResponse({ when: isWrite, times: 1 })];
    const retrying = containerClient(blob.containerName, { through: proxy }).getBlockBlobClient("doc");
    await expect(retrying.upload("new", 3, { conditions: { ifMatch: etag } })).rejects.toMatchObject({ statusCode: 412 });
    expect(await content()).toBe("new");
    expect(proxy.count(isWrite)).toBe(2);
  });

  it("can look at the answer first", async () => {
    proxy.rules = [dropResponse({ whenResponse: ({ status, headers }) => status === 201 && headers["etag"] !== undefined })];
    await expect(blob.upload("new", 3, { conditions: { ifMatch: '"0x0"' } })).rejects.toMatchObject({ statusCode: 412 });
    await expect(uploadIfMatch()).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(proxy.faultCount("drop-response")).toBe(1);
  });
});

describe("drop-request", () => {
  it("breaks the connection before the storage sees the request", async () => {
    proxy.rules = [dropRequest({ when: isWrite })];
    await expect(uploadIfMatch()).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await content()).toBe("old");
    expect(proxy.log).toMatchObject([{ outcome: "cut", status: undefined, storageStatus: undefined, ruleNames: ["drop-request"] }]);
    expect(proxy.forwarded).toBe(0);
  });
});

describe("respondWith", () => {
  it.each([
    [403, "AuthorizationFailure"],
    [429, "TooManyRequests"],
    [500, "InternalError"],
    [503, "ServerBusy"],
  ])("answers %i %s and leaves the storage alone", async (status, code) => {
    proxy.rules = [respondWith(status)];
    await expect(uploadIfMatch()).rejects.toMatchObject({ statusCode: status, code, details: { errorCode: code } });
    expect(await content()).toBe("old");
    expect(proxy.log).toMatchObject([{ outcome: "responded", status, storageStatus: undefined, ruleNames: [`status-${status}`] }]);
  });

  it("can answer after the storage has committed", async () => {
    proxy.rules = [respondWith(500, { at: "response", errorCode: "OperationTimedOut" })];
    await expect(uploadIfMatch()).rejects.toMatchObject({ statusCode: 500, code: "OperationTimedOut" });
    expect(await content()).toBe("new");
    expect(proxy.log).toMatchObject([{ outcome: "responded", status: 500, storageStatus: 201 }]);
  });

  it("answers HEAD requests without a body", async () => {
    proxy.rules = [respondWith(503)];
    await expect(blob.getProperties()).rejects.toMatchObject({ statusCode: 503, details: { errorCode: "ServerBusy" } });
  });
});

describe("delay", () => {
  it("holds requests back, and the rules below still get their turn", async () => {
    proxy.rules = [delay(60), delay({ minInMs: 60, maxInMs: 80 }), dropResponse()];
    const start = performance.now();
    await expect(uploadIfMatch()).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(performance.now() - start).toBeGreaterThanOrEqual(115);
    expect(await content()).toBe("new");
    expect(proxy.log[0]!.ruleNames).toEqual(["delay", "delay", "drop-response"]);
  });

  it("holds answers back after the storage has committed", async () => {
    proxy.rules = [delay(200, { at: "response" })];
    const start = performance.now();
    const uploading = uploadIfMatch();
    await proxy.waitFor((request) => request.storageStatus === 201);
    expect(await content()).toBe("new");
    await uploading;
    expect(performance.now() - start).toBeGreaterThanOrEqual(195);
  });

  it("delivers a delayed write even though its client has given up", async () => {
    proxy.rules = [delay(150)];
    const controller = new AbortController();
    const uploading = uploadIfMatch(controller.signal);
    await proxy.waitFor(isWrite);
    controller.abort();
    await expect(uploading).rejects.toMatchObject({ name: "AbortError" });
    await proxy.waitFor((request) => request.outcome === "abandoned" && request.storageStatus === 201);
    expect(await content()).toBe("new");
  });
});

describe("hang", () => {
  it("never answers, and the storage never sees the request", async () => {
    proxy.rules = [hang()];
    const controller = new AbortController();
    const uploading = uploadIfMatch(controller.signal);
    await proxy.waitFor((request) => request.ruleNames.includes("hang"));
    controller.abort();
    await expect(uploading).rejects.toMatchObject({ name: "AbortError" });
    const request = await proxy.waitFor(({ outcome }) => outcome !== "pending");
    expect(request).toMatchObject({ outcome: "abandoned", storageStatus: undefined });
    expect(await content()).toBe("old");
  });

  it("can hang after the storage has committed", async () => {
    proxy.rules = [hang({ at: "response" })];
    const controller = new AbortController();
    const uploading = uploadIfMatch(controller.signal);
    await proxy.waitFor((request) => request.storageStatus === 201);
    expect(await content()).toBe("new");
    controller.abort();
    await expect(uploading).rejects.toMatchObject({ name: "AbortError" });
  });

  it("ends when the proxy is stopped, and so does a delay", async () => {
    proxy.rules = [hang({ when: isWrite }), hang({ when: ({ method }) => method === "HEAD", at: "response" }), delay(60_000)];
    const calls = [uploadIfMatch(), blob.getProperties(), blob.download()];
    const cut = calls.map((call) => expect(call).rejects.toMatchObject({ code: "ECONNRESET" }));
    await proxy.waitFor(({ method, ruleNames }) => method === "PUT" && ruleNames.includes("hang"));
    await proxy.waitFor(({ method, storageStatus }) => method === "HEAD" && storageStatus === 200);
    await proxy.waitFor(({ method, ruleNames }) => method === "GET" && ruleNames.includes("delay"));

    await proxy.stop();
    await Promise.all(cut);
    expect(proxy.log.map(({ outcome }) => outcome)).toEqual(["abandoned", "abandoned", "abandoned"]);
  });
});

describe("rewriteResponse", () => {
  it("changes status, headers and body", async () => {
    proxy.rules = [
      rewriteResponse(({ status, headers, body }) => ({
        status,
        headers: { ...headers, etag: '"0xFAKE"', "content-md5": undefined },
        body: Buffer.from(`${body.toString()}er`),
      })),
    ];
    const answer = await blob.download();
    expect(answer.etag).toBe('"0xFAKE"');
    expect(answer.contentLength).toBe(5);
    expect(await text(answer.readableStreamBody!)).toBe("older");
  });

  it("can turn a success into an error and keeps HEAD answers well-formed", async () => {
    proxy.rules = [rewriteResponse((answer, request) => (request.method === "HEAD" ? answer : { ...answer, status: 500 }))];
    expect((await blob.getProperties()).contentLength).toBe(3);
    await expect(uploadIfMatch()).rejects.toMatchObject({ statusCode: 500 });
    expect(await content()).toBe("new");
  });
});
