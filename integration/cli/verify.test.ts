import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { AccountSASPermissions, BlobServiceClient, generateAccountSASQueryParameters, SASProtocol, StorageSharedKeyCredential } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { run } from "../../src/cli/run.js";
import { checksOf } from "../../src/cli/verify/all-checks.js";
import type { Check } from "../../src/cli/verify/check.js";
import { type Service, services } from "../../src/cli/verify/service.js";
import { openResources } from "../../src/cli/verify/resources.js";
import { Account } from "../../src/cli/connect.js";
import { RunNames } from "../../src/cli/verify/names.js";
import { runChecks } from "../../src/cli/verify/run-checks.js";
import { type Azurite, dropResponse, emulatorAccount, type FaultProxy, type FileShareServer, hang, replaceEndpoints, respondWith, startAzurite, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";
import { workspaceHere } from "../conformance/suite.js";

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

interface Row {
  readonly status: string;
  readonly expected: string;
  readonly emulator?: string;
  readonly found: string;
  readonly name: string;
}

interface Report {
  readonly planned: number;
  readonly checked: number;
  readonly different: number;
  readonly failed: number;
  readonly results: readonly Row[];
  readonly left: readonly unknown[];
}

interface DryRun {
  readonly checks: number;
  readonly requests: number;
  readonly upTo: number;
  readonly groups: readonly { readonly group: string; readonly requests: number }[];
}

// An account of its own: what is left in it is compared, and requests are counted.
let azurite: Azurite;
let files: FileShareServer;
let proxies: readonly FaultProxy[];
let connectionString: string;

beforeEach(async () => {
  [azurite, files] = await Promise.all([startAzurite(), startFileShareServer()]);
  proxies = await Promise.all([azurite.blobUrl, azurite.tableUrl, azurite.queueUrl, files.url].map((url) => startFaultProxy(url)));
  const [blob, table, queue, file] = proxies as [FaultProxy, FaultProxy, FaultProxy, FaultProxy];
  connectionString = replaceEndpoints(azurite.connectionString, { blobUrl: blob.url, tableUrl: table.url, queueUrl: queue.url, fileUrl: file.url });
});

afterEach(async () => {
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  await Promise.all([azurite.stop(), files.stop()]);
});

const requests = (): number => proxies.reduce((sum, proxy) => sum + proxy.requests, 0);

/** What a run has left in the account, asked directly. */
async function leftInAccount(): Promise<string[]> {
  const direct = new Account({ connectionString: replaceEndpoints(azurite.connectionString, { fileUrl: files.url }) }, new FakeTerminal());
  const names: string[] = [];
  for (const service of services) for await (const name of (await openResources[service](direct)).list()) names.push(name);
  return names;
}

async function verify(...args: string[]): Promise<{ exitCode: number; terminal: FakeTerminal }> {
  const terminal = new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: connectionString } });
  return { exitCode: await run(["verify", ...args], terminal), terminal };
}

describe("verify", () => {
  it("runs every check on Azurite and the file-share server: exactly their known differences, the planned requests, and nothing is left", async () => {
    const { terminal: dry } = await verify("--dry-run", "--json");
    expect(requests()).toBe(0);
    const { exitCode, terminal } = await verify("--emulator", "--json");
    const planned = JSON.parse(dry.stdout) as DryRun;
    // The helpers in the checks of permissions send one request more or less in the background.
    expect(requests()).toBeGreaterThanOrEqual(planned.requests - checksOf(services).filter(isPermission).length / 8);
    expect(requests()).toBeLessThanOrEqual(planned.upTo);
    const report = JSON.parse(terminal.stdout) as Report;
    expect(report.results.filter(({ status, emulator }) => status !== (emulator === undefined ? "ok" : "known"))).toEqual([]);
    expect(report).toMatchObject({ different: 0, failed: 0, left: [], checked: report.planned });
    expect(report.planned).toBe(checksOf(services).length);
    expect(exitCode).toBe(0);
    expect(terminal.stderr).toContain(`${report.planned} of ${report.planned} checks`);
    expect(await leftInAccount()).toEqual([]);
  });

  it("fails without --emulator, and shows what was expected and found", async () => {
    const { exitCode, terminal } = await verify("--service", "table");
    expect(exitCode).toBe(1);
    expect(terminal.stdout).toMatch(/^SERVICE +CHECK +RESULT +EXPECTED +FOUND +SOURCE\ntable +Permissions: `runTransaction` with raud +DIFFERENT +passes +403 /);
    expect(terminal.stdout).toMatch(/\n\d+ of \d+ checks: \d+ as expected, 0 known differences, 1 different, 0 without a result\.\n$/);
    expect(terminal.stderr).toContain("checks did not have the expected result");
  });

  it("fails on a difference that is not known", async () => {
    const [, table] = proxies;
    table!.setRules([respondWith(404, { when: ({ method, headers }) => method === "DELETE" && headers["if-match"] !== undefined && headers["if-match"] !== "*" })]);
    const { exitCode, terminal } = await verify("--service", "table", "--emulator");
    expect(exitCode).toBe(1);
    expect(terminal.stdout).toMatch(/Delete Entity: the ETag of before another change +DIFFERENT/);
  });

  it("checks only the services that it is asked for", async () => {
    const { exitCode, terminal } = await verify("--service", "queue", "--service", "table", "--emulator");
    expect(exitCode).toBe(0);
    const [blob, table, queue, file] = proxies;
    expect([blob!.requests, file!.requests]).toEqual([0, 0]);
    expect(Math.min(table!.requests, queue!.requests)).toBeGreaterThan(50);
    expect(terminal.stdout).toContain("Not checked: Set Queue Service Properties");
    expect((await verify("--service", "cosmos")).exitCode).toBe(2);
  });
});

/** Uses a SAS of the account instead of its key. */
function useSas(permissions: string, resourceTypes: string): void {
  const credential = new StorageSharedKeyCredential(emulatorAccount.name, emulatorAccount.key);
  const values = {
    permissions: AccountSASPermissions.parse(permissions), resourceTypes, services: "btqf", expiresOn: new Date(Date.now() + 600_000), protocol: SASProtocol.HttpsAndHttp,
  };
  const endpoints = connectionString.split(";").filter((part) => part.includes("Endpoint="));
  connectionString = [...endpoints, `SharedAccessSignature=${generateAccountSASQueryParameters(values, credential).toString()}`].join(";");
}

describe("verify with a SAS instead of the account key", () => {
  it("runs the checks that a SAS allows, and lists the others", async () => {
    useSas("rwdlacup", "sco");
    const { exitCode, terminal } = await verify("--service", "table", "--service", "queue", "--emulator");
    expect(terminal.stdout).toMatch(/ 0 different, 0 without a result\.\n$/);
    expect(exitCode).toBe(0);
    expect(terminal.stdout).toMatch(/Not checked: Permissions: \d+ checks: they also use the service blob\./);
    expect(terminal.stdout).toContain("Not checked: Permissions: 11 checks: it needs a connection string with the account key.");
    expect(terminal.stdout + terminal.stderr).not.toContain("sig=");
    expect(await leftInAccount()).toEqual([]);
  });
});

describe("verify with a SAS that is not sufficient", () => {
  it.each([["rl", "sco"], ["rwdacup", "sco"], ["rwdlacup", "o"]])("of %s for %s says what it must have, and names nothing as left", async (permissions, resourceTypes) => {
    useSas(permissions, resourceTypes);
    const { exitCode, terminal } = await verify("--service", "table", "--service", "queue");
    expect(exitCode).toBe(1);
    expect(terminal.stderr).toMatch(/^Authorization\w+Mismatch: the credentials do not allow .* for the services table, queue, all resource types \(sco\), and the permissions rwdlacup/);
    expect(terminal.stderr).not.toMatch(/Could not remove|xml|sig=/);
    expect(await leftInAccount()).toEqual([]);
  });
});

const isPermission = ({ group }: Check): boolean => group === "Permissions";

/** What a run of these checks sends, but for polls. */
async function requestsOf(checked: readonly Service[], checks: readonly Check[]): Promise<number> {
  const before = requests();
  const workspace = workspaceHere(connectionString);
  await workspace.load(checked);
  for await (const each of workspace.leftOvers()) expect(each).toBeUndefined();
  await workspace.open(checked);
  await runChecks(checks, workspace, { emulator: true });
  expect(await workspace.removeAll()).toEqual([]);
  return requests() - before - workspace.extraPolls;
}

describe("verify --dry-run", () => {
  it.each([...services.map((service) => [service, [service]] as const), ["all services", services] as const])("tells the requests of the checks of %s, but for polls", async (_name, checked) => {
    const { terminal } = await verify("--dry-run", "--json", ...checked.flatMap((service) => ["--service", service]));
    const { requests: planned, groups } = JSON.parse(terminal.stdout) as DryRun;
    const ofHelpers = groups.filter(({ group }) => group === "Permissions").reduce((sum, { requests: count }) => sum + count, 0);
    const [helpers, others] = [checksOf(checked).filter(isPermission), checksOf(checked).filter((check) => !isPermission(check))];
    expect(await requestsOf(checked, others)).toBe(planned - ofHelpers);
    // The helpers send one request more or less in the background, depending on how long a step takes: the record of a lock that is held for a
    // second, a renewal, a poll before the stop.
    const ofTheRun = await requestsOf(checked, []);
    expect(Math.abs((await requestsOf(checked, helpers)) - ofTheRun - ofHelpers)).toBeLessThanOrEqual(helpers.length / 8);
  });

  it("lists the tables for a reader", async () => {
    const { terminal } = await verify("--dry-run");
    expect(terminal.stdout).toMatch(/^SERVICE +CHECKS +REQUESTS +GROUP\nblob +\d+ +\d+ +Containers\n/);
    expect(terminal.stdout).toMatch(/\d+ checks, \d+ requests; up to \d+ if the service ends leases late\. Nothing was sent\.\n$/);
  });

  it("leaves out what a SAS cannot do, and says so", async () => {
    connectionString = connectionString.replace(/AccountKey=[^;]+;/, "SharedAccessSignature=sv=x&sig=y;");
    const { terminal } = await verify("--dry-run", "--service", "blob");
    expect(terminal.stdout).toMatch(/Not checked: Permissions: \d+ checks: it needs a connection string/);
    expect(terminal.stdout).not.toMatch(/blob +\d+ +\d+ +Permissions/);
  });
});

describe("what a run leaves", () => {
  it("is nothing after Ctrl-C", async () => {
    const terminal = new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: connectionString } });
    const running = run(["verify", "--emulator", "--service", "blob", "--service", "queue"], terminal);
    await expect.poll(() => requests(), { timeout: 20_000, interval: 5 }).toBeGreaterThan(300);
    terminal.interrupt();
    expect(await running).toBe(1);
    expect(terminal.stderr).toContain("Interrupted.");
    expect(terminal.endsSoon).toBe(true);
    expect(await leftInAccount()).toEqual([]);
  });

  it("is nothing after the time is over", async () => {
    const { exitCode, terminal } = await verify("--emulator", "--service", "blob", "--timeout", "2");
    expect(exitCode).toBe(1);
    expect(terminal.stderr).toContain("The time is over (--timeout 2).");
    expect(await leftInAccount()).toEqual([]);
  });

  it("is nothing if a service fails while it runs", async () => {
    const [, table] = proxies;
    table!.setRules([respondWith(403, { when: ({ method }) => method === "PATCH" })]);
    expect((await verify("--emulator", "--service", "table")).exitCode).toBe(1);
    expect(await leftInAccount()).toEqual([]);
  });

  it("is nothing if the response to a create is lost", async () => {
    const [, , queue] = proxies;
    queue!.setRules([dropResponse({ times: 3, when: ({ method, path }) => method === "PUT" && !path.includes("/messages") })]);
    expect((await verify("--emulator", "--service", "queue")).exitCode).toBe(0);
    expect(await leftInAccount()).toEqual([]);
  });

  it("is removed by the next run if it is old, and named if it may be in use", async () => {
    const service = BlobServiceClient.fromConnectionString(azurite.connectionString);
    const old = new RunNames(Date.now() - 3 * 3_600_000).next();
    const young = new RunNames(Date.now() - 60_000).next();
    for (const name of [old, young, "ascverify-of-another-program"]) await service.createContainer(name);
    await service.getContainerClient(old).getBlobLeaseClient().acquireLease(-1);
    const { terminal } = await verify("--emulator", "--service", "blob", "--timeout", "3");
    expect(terminal.stderr).toContain(`Removed the container ${old}`);
    expect(terminal.stderr).toContain(`Found the container ${young}`);
    expect((await leftInAccount()).sort()).toEqual(["ascverify-of-another-program", young].sort());
  });

  it("is named if it cannot be removed", async () => {
    const [, , queue] = proxies;
    queue!.setRules([respondWith(403, { when: ({ method, path }) => method === "DELETE" && !path.includes("/messages") })]);
    const { exitCode, terminal } = await verify("--emulator", "--service", "queue");
    expect(exitCode).toBe(1);
    const [left] = await leftInAccount();
    expect(terminal.stderr).toContain(`Could not remove the queue ${left}`);
  });
});

it("loads only the SDKs of the services that it is asked for", async () => {
  // As if no other SDK were installed.
  const hook = `export const resolve = (name, context, next) => {
    if (/^@azure\\/(data-tables|storage-(blob|file-share))$/.test(name)) throw Object.assign(new Error(name), { code: "ERR_MODULE_NOT_FOUND" });
    return next(name, context);
  };`;
  const register = `import { register } from "node:module"; register("data:text/javascript,${encodeURIComponent(hook)}");`;
  const verifyOf = async (service: string): Promise<{ exitCode: number | null; stderr: string }> => {
    const child = spawn(process.execPath, ["--import", "tsx", "--import", `data:text/javascript,${encodeURIComponent(register)}`, main, "verify", "--emulator", "--service", service], {
      env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: connectionString }, stdio: ["ignore", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const [exitCode] = (await once(child, "close")) as [number | null];
    return { exitCode, stderr };
  };
  expect(await verifyOf("queue")).toMatchObject({ exitCode: 0 });
  expect(await verifyOf("table")).toEqual({ exitCode: 1, stderr: "this command needs the package @azure/data-tables: npm install @azure/data-tables\n" });
});

it("ends by Ctrl-C as a process, although a request gets no response, and leaves nothing", async () => {
  const [, table] = proxies;
  table!.setRules([hang({ when: ({ method, path }) => method === "PUT" && path.includes("PartitionKey") })]);
  const child = spawn(process.execPath, ["--import", "tsx", main, "verify", "--service", "table"], {
    env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: connectionString }, stdio: ["ignore", "ignore", "inherit"],
  });
  await table!.waitFor(({ method, path }) => method === "PUT" && path.includes("PartitionKey"));
  child.kill("SIGINT");
  const [exitCode] = (await once(child, "exit")) as [number | null];
  expect(exitCode).toBe(1);
  expect(await leftInAccount()).toEqual([]);
});
