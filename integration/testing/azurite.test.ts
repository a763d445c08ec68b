import { spawn } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { describe, expect, it, onTestFinished, vi } from "vitest";

import { startAzurite } from "../../src/testing.js";

const entry = new URL("../../src/testing.ts", import.meta.url).href;

/** Runs TypeScript in a process of its own, which is killed at the end of the test if it still runs. */
function runScript(code: string) {
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", code], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.once("exit", (exitCode, signal) => resolve({ code: exitCode, signal })),
  );
  const firstLine = new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve).once("close", () => reject(new Error("the script printed nothing")));
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return { kill: () => child.kill("SIGKILL"), exit, firstLine };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function untilGone(pid: number): Promise<void> {
  await vi.waitUntil(() => !isAlive(pid), { timeout: 10_000, interval: 20 });
}

/** Ports that were free a moment ago. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise<Server>((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => resolve(server));
  })));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

describe("startAzurite", () => {
  it("serves blobs, queues and tables on ports of its own", async () => {
    await using azurite = await startAzurite();

    const container = BlobServiceClient.fromConnectionString(azurite.connectionString).getContainerClient("things");
    await container.create();
    await container.getBlockBlobClient("a").upload("hello", 5);
    expect((await container.getBlockBlobClient("a").downloadToBuffer()).toString()).toBe("hello");
    expect(container.url).toBe(`${azurite.blobUrl}/things`);

    const queue = QueueServiceClient.fromConnectionString(azurite.connectionString).getQueueClient("things");
    await queue.create();
    await queue.sendMessage("hello");
    expect((await queue.receiveMessages()).receivedMessageItems.map((item) => item.messageText)).toEqual(["hello"]);
    expect(queue.url).toBe(`${azurite.queueUrl}/things`);

    const table = TableClient.fromConnectionString(azurite.connectionString, "things", { allowInsecureConnection: true });
    await table.createTable();
    await table.createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
    expect(await table.getEntity("p", "r")).toMatchObject({ n: 1 });
    expect(table.url).toBe(azurite.tableUrl);
  });

  it("listens on the ports that the caller gives, in both spellings of a flag", async () => {
    const ports = await freePorts(2);
    await using azurite = await startAzurite({ args: ["--blobPort", String(ports[0]), `--queuePort=${ports[1]}`] });
    expect([azurite.blobUrl, azurite.queueUrl].map((url) => Number(new URL(url).port))).toEqual(ports);
    await expect(startAzurite({ args: ["--blobPort", String(ports[0])] })).rejects.toMatchObject({ code: "AZURITE_EXITED" });
  });

  it("keeps the data in the location that the caller gives: another one continues with it, on other ports", async () => {
    const folder = await mkdtemp(join(tmpdir(), "location-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const first = await startAzurite({ args: ["--location", folder] });
    const containerOf = ({ connectionString }: typeof first) => BlobServiceClient.fromConnectionString(connectionString).getContainerClient("things");
    await containerOf(first).create();
    await containerOf(first).getBlockBlobClient("a").upload("hello", 5);
    await Promise.all([first.stop(), first.stop()]);
    expect(isAlive(first.pid)).toBe(false);

    await using second = await startAzurite({ args: ["--location", folder] });
    expect((await containerOf(second).getBlockBlobClient("a").downloadToBuffer()).toString()).toBe("hello");
  });

  it("ends the process before stop() resolves, however often it is called", async () => {
    const azurite = await startAzurite();
    expect(isAlive(azurite.pid)).toBe(true);

    await Promise.all([azurite.stop(), azurite.stop()]);
    expect(isAlive(azurite.pid)).toBe(false);
    await azurite.stop();
  });

  it("runs beside another one", async () => {
    await using one = await startAzurite();
    await using other = await startAzurite();
    expect(new Set([one.blobUrl, one.queueUrl, one.tableUrl, other.blobUrl, other.queueUrl, other.tableUrl]).size).toBe(6);
  });

  it("says what to install if there is no azurite", async () => {
    const empty = await mkdtemp(join(tmpdir(), "no-azurite-"));
    try {
      await expect(startAzurite({ resolveFrom: empty })).rejects.toMatchObject({
        name: "AzuriteStartError",
        code: "AZURITE_NOT_INSTALLED",
        message: "azurite is not installed: npm i -D azurite",
      });
    } finally {
      await rm(empty, { recursive: true });
    }
  });

  it("tells what azurite printed if it exits early", async () => {
    // An address that this machine does not have (RFC 5737).
    await expect(startAzurite({ args: ["--blobHost", "192.0.2.1"] })).rejects.toMatchObject({
      code: "AZURITE_EXITED",
      message: expect.stringMatching(/exited \(1\).*EADDRNOTAVAIL/s) as string,
    });
  });

  it("gives up after the time it was given", async () => {
    await expect(startAzurite({ startTimeoutInMs: 1 })).rejects.toMatchObject({ code: "AZURITE_START_TIMEOUT" });
  });

  it("rejects with the signal's reason when aborted while starting", async () => {
    const controller = new AbortController();
    const starting = startAzurite({ abortSignal: controller.signal });
    controller.abort(new Error("changed my mind"));
    await expect(starting).rejects.toThrow("changed my mind");
    await expect(startAzurite({ abortSignal: controller.signal })).rejects.toThrow("changed my mind");
  });

  it("leaves no azurite behind when its parent is killed with SIGKILL", async () => {
    const parent = runScript(`
      const { startAzurite } = await import(${JSON.stringify(entry)});
      console.log((await startAzurite()).pid);
      setInterval(() => {}, 1000);
    `);
    const pid = Number(await parent.firstLine);
    expect(isAlive(pid)).toBe(true);

    parent.kill();
    expect((await parent.exit).signal).toBe("SIGKILL");
    await untilGone(pid);
  });

  it("lets a process end that forgot to stop it, and ends with it", async () => {
    const forgetful = runScript(`
      const { startAzurite } = await import(${JSON.stringify(entry)});
      console.log((await startAzurite()).pid);
    `);
    const pid = Number(await forgetful.firstLine);
    expect(await forgetful.exit).toEqual({ code: 0, signal: null });
    await untilGone(pid);
  });

  it("completes stop() in a process that has nothing else to do", async () => {
    const script = runScript(`
      const { startAzurite, startFaultProxy } = await import(${JSON.stringify(entry)});
      const azurite = await startAzurite();
      const proxy = await startFaultProxy(azurite.blobUrl);
      await proxy.stop();
      await azurite.stop();
      console.log("stopped " + azurite.pid);
    `);
    expect(await script.firstLine).toMatch(/^stopped \d+$/);
    expect(await script.exit).toEqual({ code: 0, signal: null });
  });

  it("writes nothing into the working directory", async () => {
    const before = await readdir(process.cwd());
    await using azurite = await startAzurite();
    const container = BlobServiceClient.fromConnectionString(azurite.connectionString).getContainerClient("things");
    await container.create();
    await container.getBlockBlobClient("a").upload("hello", 5);
    const appeared = (await readdir(process.cwd())).filter((name) => !before.includes(name));
    expect(appeared.filter((name) => /azurite|storage/i.test(name))).toEqual([]);
  });
});
