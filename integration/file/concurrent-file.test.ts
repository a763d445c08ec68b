import { afterAll, beforeAll, expect, it } from "vitest";

import { BlobLocks, ConcurrentFile, textFile } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshContainer } from "../support/clients.js";
import { freshShare } from "./support.js";

let server: FileShareServer;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());

it("does with its file what the functions do, under its crash guard", async () => {
  const share = await freshShare(server);
  const client = share.rootDirectoryClient.getFileClient("settings.json");
  const locks = new BlobLocks(await freshContainer());
  const file = new ConcurrentFile<{ n: number }>(client, { crashGuard: locks, defaults: { initial: { n: 10 } } });
  expect(await file.update((d) => { d.n++; })).toMatchObject({ value: { n: 11 }, outcome: "created" });
  expect(await file.createIfNotExists({ n: 0 })).toMatchObject({ value: { n: 11 }, outcome: "unchanged" });
  expect(await file.update((d) => void (d.n *= 100))).toMatchObject({ value: { n: 1100 }, outcome: "updated" });
  await file.overwrite({ n: 5 });
  expect((await file.read()).value).toEqual({ n: 5 });
  await file.updateMetadata((m) => void (m["a"] = "b"));
  await file.updateHttpHeaders((h) => void (h.cacheControl = "no-store"));
  expect(await client.getProperties()).toMatchObject({ metadata: { a: "b" }, cacheControl: "no-store", contentType: "application/json" });
  await file.withLease(async (lease) => {
    expect((await file.inspectLease()).state).toBe("leased");
    await file.update((d) => { d.n++; }, { lease });
  });
  expect((await file.read()).value).toEqual({ n: 6 });
  const { etag } = await file.read();
  expect(await file.readIfChanged(etag)).toEqual({ changed: false, etag });
  expect(await file.tryRead()).toMatchObject({ etag, value: { n: 6 } });
  for await (const state of file.watch()) {
    expect(state).toMatchObject({ exists: true, value: { n: 6 } });
    break;
  }
  const all: string[] = [];
  for await (const lock of locks.list()) all.push(lock.state);
  // One lock for all of it, and it is free.
  expect(all).toEqual(["available"]);
  const text = new ConcurrentFile(client, { target: textFile(client), crashGuard: locks });
  expect((await text.read()).value).toBe('{"n":6}');
});
