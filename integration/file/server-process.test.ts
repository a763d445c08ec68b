import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { ShareServiceClient } from "@azure/storage-file-share";
import { expect, it } from "vitest";

import { startFileShareServer } from "../../src/testing.js";
import { freshShare } from "./support.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

function run(...args: string[]): ChildProcess {
  return spawn(process.execPath, ["--import", "tsx", ...args], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
}

it("runs alone, on the port that it is given, until it is told to end", async () => {
  const child = run("src/testing/file-share/cli.ts", "--port", "0");
  try {
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout! })) if (lines.push(line) === 2) break;
    expect(lines[0]).toMatch(/^The file-share server listens at http:\/\/127\.0\.0\.1:\d+\/devstoreaccount1$/);
    const service = ShareServiceClient.fromConnectionString(lines[1] ?? "", { retryOptions: { maxTries: 1 } });
    expect(await service.getShareClient("share").createIfNotExists()).toMatchObject({ succeeded: true });
    const exit = once(child, "exit");
    child.kill("SIGTERM");
    expect(await exit).toEqual([0, null]);
  } finally {
    child.kill("SIGKILL");
  }
});

it("does not keep a process from ending, also while a client is connected", async () => {
  const script = `
    import { connect } from "node:net";
    import { startFileShareServer } from "./src/testing.ts";
    const server = await startFileShareServer();
    const client = connect(Number(new URL(server.url).port), "127.0.0.1");
    client.write("HEAD / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n");
    client.once("data", () => client.unref());`;
  const child = run("--input-type=module", "-e", script);
  try {
    expect((await once(child, "exit"))[0]).toBe(0);
  } finally {
    child.kill("SIGKILL");
  }
});

it("listens on the port that it is given, or says that it is taken", async () => {
  await using server = await startFileShareServer();
  const port = Number(new URL(server.url).port);
  await expect(startFileShareServer({ port })).rejects.toMatchObject({ code: "EADDRINUSE", port });
});

it("stops at once, also while connections are open, and more than once", async () => {
  const server = await startFileShareServer();
  const share = await freshShare(server);
  await Promise.all([server.stop(), server.stop()]);
  await server[Symbol.asyncDispose]();
  await expect(share.getProperties()).rejects.toThrow();
});

it("has one winner per round among several processes that compete for a lease", async () => {
  await using server = await startFileShareServer();
  const share = await freshShare(server);
  const rounds = 10;
  for (let i = 0; i < rounds; i++) await share.rootDirectoryClient.getFileClient(`f${i}`).create(1);
  // The SDK loads in each of them; the lease of each file is taken once and never given back.
  const script = `
    import { ShareServiceClient } from "@azure/storage-file-share";
    const service = ShareServiceClient.fromConnectionString(process.argv[1]);
    const root = service.getShareClient(process.argv[2]).rootDirectoryClient;
    const won = [];
    for (let i = 0; i < ${rounds}; i++) {
      const answers = await Promise.allSettled([1, 2, 3].map(() => root.getFileClient("f" + i).getShareLeaseClient().acquireLease(-1)));
      won.push(answers.filter((a) => a.status === "fulfilled").length);
    }
    console.log(JSON.stringify(won));`;
  const children = Array.from({ length: 3 }, () => run("--input-type=module", "-e", script, server.connectionString, share.name));
  try {
    const won = await Promise.all(
      children.map(async (child) => {
        for await (const line of createInterface({ input: child.stdout! })) return JSON.parse(line) as number[];
        throw new Error("a contender printed nothing");
      }),
    );
    const winners = Array.from({ length: rounds }, (_, i) => won.reduce((sum, each) => sum + (each[i] ?? 0), 0));
    expect(winners).toEqual(Array.from({ length: rounds }, () => 1));
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
});
