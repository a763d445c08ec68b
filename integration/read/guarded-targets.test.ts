import type { ShareClient } from "@azure/storage-file-share";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { containerAccessPolicy, containerMetadata, fileHttpHeaders, fileMetadata, jsonFile, queueMetadata, readIfChanged, readTarget, shareMetadata, type Target, textFile, watch, WatchFailedError } from "../../src/index.js";
import { type FaultProxy, type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { freshShare, serviceOf } from "../file/support.js";
import { azurite, containerClient, freshContainer, freshQueue, freshName, queueClient } from "../support/clients.js";

/** What has no If-Match can be read and watched like everything else. */
interface Subject {
  readonly proxy: FaultProxy;
  readonly target: Target<unknown>;
  /** Past the proxy. */
  readonly change: (n: number) => Promise<unknown>;
  readonly values: (n: number) => unknown;
  readonly remove: () => Promise<unknown>;
}

/** The tests only read. A target is invariant in the type of its value. */
function anyOf<T>(target: Target<T>): Target<unknown> {
  return target as unknown as Target<unknown>;
}

let server: FileShareServer;
const open: FaultProxy[] = [];
beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
afterEach(async () => {
  for (const proxy of open.splice(0)) await proxy.stop();
});

async function proxyTo(url: string): Promise<FaultProxy> {
  const proxy = await startFaultProxy(url);
  open.push(proxy);
  return proxy;
}

async function ofContainer(kind: "metadata" | "policy"): Promise<Subject> {
  const proxy = await proxyTo(azurite().blobUrl);
  const truth = await freshContainer();
  const container = containerClient(truth.containerName, { through: proxy });
  const policy = (n: number) => ({ id: `p${n}`, accessPolicy: { permissions: "r" } });
  const change = (n: number): Promise<unknown> => (kind === "metadata" ? truth.setMetadata({ n: String(n) }) : truth.setAccessPolicy(undefined, [policy(n)] as never));
  await change(0);
  return {
    proxy,
    target: kind === "metadata" ? anyOf(containerMetadata(container)) : anyOf(containerAccessPolicy(container)),
    change,
    values: (n) => (kind === "metadata" ? { n: String(n) } : { policies: [{ id: `p${n}` }] }),
    remove: () => truth.delete(),
  };
}

async function ofQueue(): Promise<Subject> {
  const proxy = await proxyTo(azurite().queueUrl);
  const truth = await freshQueue();
  const change = (n: number): Promise<unknown> => truth.setMetadata({ n: String(n) });
  await change(0);
  return { proxy, target: anyOf(queueMetadata(queueClient(truth.name, { through: proxy }))), change, values: (n) => ({ n: String(n) }), remove: () => truth.delete() };
}

async function ofFile(kind: "json" | "text" | "metadata" | "headers"): Promise<Subject> {
  const { proxy, truth, share } = await shares();
  const name = freshName();
  const file = truth.rootDirectoryClient.getFileClient(name);
  await file.create(7);
  const through = share.rootDirectoryClient.getFileClient(name);
  const kinds = {
    json: { target: anyOf(jsonFile<object>(through)), change: (n: number) => file.uploadRange(`{"n":${n}}`, 0, 7), values: (n: number) => ({ n }) },
    text: { target: anyOf(textFile(through)), change: (n: number) => file.uploadRange(`text  ${n}`, 0, 7), values: (n: number) => `text  ${n}` },
    metadata: { target: anyOf(fileMetadata(through)), change: (n: number) => file.setMetadata({ n: String(n) }), values: (n: number) => ({ n: String(n) }) },
    headers: {
      target: anyOf(fileHttpHeaders(through)),
      change: (n: number) => file.setHttpHeaders({ fileContentType: `text/${n}` }),
      values: (n: number) => ({ contentType: `text/${n}` }),
    },
  };
  const subject: Omit<Subject, "proxy" | "remove"> = kinds[kind];
  await subject.change(0);
  return { proxy, ...subject, remove: () => file.delete() };
}

async function ofShare(): Promise<Subject> {
  const { proxy, truth, share } = await shares();
  const change = (n: number): Promise<unknown> => truth.setMetadata({ n: String(n) });
  await change(0);
  return { proxy, target: anyOf(shareMetadata(share)), change, values: (n) => ({ n: String(n) }), remove: () => truth.delete() };
}

async function shares(): Promise<{ proxy: FaultProxy; truth: ShareClient; share: ShareClient }> {
  const proxy = await proxyTo(server.url);
  const truth = await freshShare(server);
  return { proxy, truth, share: serviceOf(server, proxy.url).getShareClient(truth.name) };
}

const subjects: [string, () => Promise<Subject>, whenChanged: number][] = [
  ["the metadata of a container", () => ofContainer("metadata"), 1],
  ["the access policy of a container", () => ofContainer("policy"), 1],
  ["the metadata of a queue", ofQueue, 1],
  ["a file of JSON", () => ofFile("json"), 2],
  ["a file of text", () => ofFile("text"), 2],
  ["the metadata of a file", () => ofFile("metadata"), 1],
  ["the headers of a file", () => ofFile("headers"), 1],
  ["the metadata of a share", ofShare, 1],
];

describe.each(subjects)("%s", (_name, subjectOf, whenChanged) => {
  it("is read if it has changed, and is unchanged otherwise", async () => {
    const { proxy, target, change, values } = await subjectOf();
    const { value, etag } = await readTarget(target);
    expect({ value }).toMatchObject({ value: values(0) });
    proxy.reset();
    expect(await readIfChanged(target, etag)).toEqual({ changed: false, etag });
    expect(proxy.requests).toBe(1);
    await change(1);
    proxy.reset();
    expect(await readIfChanged(target, etag)).toMatchObject({ changed: true, value: values(1) });
    expect(proxy.requests).toBe(whenChanged);
  });

  it("is watched: its states, and its end", async () => {
    const { proxy, target, change, values, remove } = await subjectOf();
    await using states = watch(target, { pollIntervalInMs: 5 });
    expect((await states.next()).value).toMatchObject({ exists: true, value: values(0) });
    proxy.reset();
    const next = states.next();
    await proxy.waitFor(() => proxy.requests > 3);
    await change(1);
    expect((await next).value).toMatchObject({ exists: true, value: values(1) });
    await remove();
    expect((await states.next()).value).toEqual({ exists: false });
  });
});

describe("a watch of a file", () => {
  it("sends no content as long as nothing has changed", async () => {
    const { proxy, target } = await ofFile("text");
    await using states = watch(target, { pollIntervalInMs: 5 });
    await states.next();
    proxy.reset();
    void states.next();
    await proxy.waitFor(() => proxy.requests > 5);
    expect(new Set(proxy.log.map(({ method }) => method))).toEqual(new Set(["HEAD"]));
  });

  it("outlasts an SMB client that has the file open, and gives up in time", async () => {
    const truth = await freshShare(server);
    const file = truth.rootDirectoryClient.getFileClient(freshName());
    await file.uploadData(Buffer.from("one"));
    const errors: unknown[] = [];
    await using states = watch(textFile(file), { pollIntervalInMs: 5, onError: (error) => errors.push(error) });
    expect((await states.next()).value).toMatchObject({ value: "one" });
    await file.uploadData(Buffer.from("two"));
    const handle = server.smb.open(truth.name, file.name, { access: ["read", "write"], shares: [] });
    const next = states.next();
    await expect.poll(() => errors.length).toBeGreaterThan(2);
    expect(errors[0]).toMatchObject({ code: "SharingViolation" });
    await using impatient = watch(textFile(file), { pollIntervalInMs: 5, maxFailureTimeInMs: 20 });
    await expect(impatient.next()).rejects.toThrow(WatchFailedError);
    handle.close();
    expect((await next).value).toMatchObject({ value: "two" });
  });

  it("passes over a version that cannot be used, and says so once", async () => {
    const truth = await freshShare(server);
    const file = truth.rootDirectoryClient.getFileClient(freshName());
    await file.uploadData(Buffer.from('{"n":1}'));
    const proxy = await proxyTo(server.url);
    const through = serviceOf(server, proxy.url).getShareClient(truth.name).rootDirectoryClient.getFileClient(file.name);
    const errors: unknown[] = [];
    await using states = watch(jsonFile<object>(through), { pollIntervalInMs: 5, onError: (error) => errors.push(error) });
    await states.next();
    await file.uploadData(Buffer.from("{nonsense"));
    const next = states.next();
    await expect.poll(() => errors.length).toBe(1);
    proxy.reset();
    await proxy.waitFor(() => proxy.requests > 5);
    await file.uploadData(Buffer.from('{"n":2}'));
    expect((await next).value).toMatchObject({ value: { n: 2 } });
    expect(errors).toHaveLength(1);
  });
});
