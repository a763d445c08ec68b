import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createIfNotExists, leasedUpdate, overwrite, readTarget, textFile } from "../../src/index.js";
import { type FaultProxy, type FaultRequest, type FileShareServer, respondWith, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let proxy: FaultProxy;
let share: ShareClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
  proxy = await startFaultProxy(server.url);
});
afterAll(async () => {
  await proxy.stop();
  await server.stop();
});
beforeEach(async () => {
  proxy.reset();
  share = await freshShare(server);
  file = serviceOf(server, proxy.url).getShareClient(share.name).rootDirectoryClient.getFileClient("file");
});

async function names(): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) found.push(entry.name);
  return found;
}

/** The requests of a write, by what they do. The path of a rename is that of its destination. */
const steps: Record<string, (request: FaultRequest) => boolean> = {
  "create the staging file": ({ method, query, path }) => method === "PUT" && !query.has("comp") && path.includes(".asc-new"),
  "write the first range": ({ query, headers, path }) => query.get("comp") === "range" && headers["x-ms-range"]?.startsWith("bytes=0-") === true && path.includes(".asc-new"),
  "write the second range": ({ query, headers }) => query.get("comp") === "range" && headers["x-ms-range"]?.startsWith("bytes=0-") === false,
  "lease the staging file": ({ query, path }) => query.get("comp") === "lease" && path.includes(".asc-new"),
  rename: ({ query }) => query.get("comp") === "rename",
};
const rejections: readonly (readonly [number, string])[] = [
  [403, "AuthorizationPermissionMismatch"],
  [413, "ShareSizeLimitReached"],
  [400, "InvalidHeaderValue"],
];
const cases = Object.keys(steps).flatMap((step) => rejections.map(([status, code]) => [step, status, code] as const));
const content = "y".repeat(5 * 1024 * 1024);

describe("a write that the service rejects leaves no staging file and no lease", () => {
  it.each(cases)("leasedUpdate: %s is rejected with %s %s", async (step, status, errorCode) => {
    await file.uploadData(Buffer.from("old"));
    proxy.reset([respondWith(status, { errorCode, when: (request) => steps[step]!(request) })]);
    await expect(leasedUpdate(textFile(file), () => content, { waitInMs: 0 })).rejects.toMatchObject({ statusCode: status });
    expect(await names()).toEqual(["file"]);
    expect((await readTarget(textFile(file))).value).toBe("old");
    expect((await file.getProperties()).leaseState).toBe("available");
  });

  it.each(cases.filter(([step]) => !step.startsWith("lease")))("calls without a lease: %s is rejected with %s %s", async (step, status, errorCode) => {
    proxy.reset([respondWith(status, { errorCode, when: (request) => steps[step]!(request) })]);
    await expect(createIfNotExists(textFile(file), content)).rejects.toMatchObject({ statusCode: status });
    await expect(leasedUpdate(textFile(file), () => content, { initial: "" })).rejects.toMatchObject({ statusCode: status });
    await expect(overwrite(textFile(file), content)).rejects.toMatchObject({ statusCode: status });
    expect(await names()).toEqual([]);
  });
});
