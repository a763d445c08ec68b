import { expect, it, onTestFinished } from "vitest";

import { dropResponse, type FaultProxy, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { azurite, connectionString, freshContainer } from "../support/clients.js";
import { startWorkers } from "../support/workers.js";
import { freshShare } from "./support.js";
import type { LeasedUpdaterConfig } from "./workers/leased-updater.js";

const processes = 4;
const updates = 200;

/** Every tenth answer is lost, whatever the request: reads, leases and releases too. */
async function lossy(url: string): Promise<FaultProxy> {
  const proxy = await startFaultProxy(url, [dropResponse({ probability: 0.1 })]);
  onTestFinished(() => proxy.stop());
  return proxy;
}

async function countTogether(config: Pick<LeasedUpdaterConfig, "kind" | "name" | "connectionString">): Promise<void> {
  const configs = Array.from({ length: processes }, (_, process) => ({ ...config, process, updates, updaters: 5 }) satisfies LeasedUpdaterConfig);
  const workers = startWorkers<number>(new URL("./workers/leased-updater.ts", import.meta.url), configs, { timeoutInMs: 170_000 });
  onTestFinished(() => Promise.all(workers.map((worker) => worker.stop())).then(() => undefined));
  const runs = await Promise.all(workers.map((worker) => worker.result));
  // Nobody loses a race: each mutator ran once.
  expect(runs).toEqual(Array(processes).fill(updates));
}

function expectAllOnce(counter: Record<string, unknown> | undefined): void {
  expect(counter?.["n"]).toBe(String(processes * updates));
  const ids = String(counter?.["ids"]).split(" ");
  expect(new Set(ids).size).toBe(processes * updates);
  expect(ids).toHaveLength(processes * updates);
}

it("counts exactly in one JSON file when 4 processes update it 200 times each and a tenth of all answers is lost", async () => {
  await using server = await startFileShareServer();
  const share = await freshShare(server);
  const file = share.rootDirectoryClient.getFileClient("counter.json");
  await file.uploadData(Buffer.from("{}"));
  const proxy = await lossy(server.url);
  await countTogether({ kind: "file", name: share.name, connectionString: server.connectionString.replace(server.url, proxy.url) });
  expect(proxy.faultCount("drop-response")).toBeGreaterThan(100);
  expectAllOnce(JSON.parse((await file.downloadToBuffer()).toString()) as Record<string, string>);
  const names: string[] = [];
  for await (const { name } of share.rootDirectoryClient.listFilesAndDirectories()) names.push(name);
  expect(names).toEqual(["counter.json"]);
  expect((await file.getProperties()).leaseState).toBe("available");
}, 180_000);

it("counts exactly in the metadata of one container when 4 processes update them 200 times each and a tenth of all answers is lost", async () => {
  const container = await freshContainer();
  const proxy = await lossy(azurite().blobUrl);
  await countTogether({ kind: "container", name: container.containerName, connectionString: connectionString({ blobUrl: proxy.url }) });
  expect(proxy.faultCount("drop-response")).toBeGreaterThan(100);
  expectAllOnce((await container.getProperties()).metadata);
}, 180_000);
