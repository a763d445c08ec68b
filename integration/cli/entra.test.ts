import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { generate } from "selfsigned";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startAzurite } from "../../src/testing.js";
import type { Azurite } from "../../src/testing.js";

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

let azurite: Azurite;
let identity: Server;
let folder: string;
let connectionString: string;
let tokens = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "entra-"));
  const altNames = [{ type: 7 as const, ip: "127.0.0.1" }];
  const { cert, private: key } = await generate([{ name: "commonName", value: "127.0.0.1" }], { extensions: [{ name: "basicConstraints", cA: true }, { name: "subjectAltName", altNames }] });
  await Promise.all([writeFile(join(folder, "cert.pem"), cert), writeFile(join(folder, "key.pem"), key)]);
  azurite = await startAzurite({ args: ["--oauth", "basic", "--cert", join(folder, "cert.pem"), "--key", join(folder, "key.pem")] });
  connectionString = `BlobEndpoint=${azurite.blobUrl};QueueEndpoint=${azurite.queueUrl};TableEndpoint=${azurite.tableUrl}`;
  identity = createServer((request, response) => {
    const isAsked = request.headers["x-identity-header"] === "local" && new URL(request.url ?? "", "http://127.0.0.1").searchParams.get("resource")?.startsWith("https://storage.azure.com");
    if (isAsked) tokens++;
    response.writeHead(isAsked ? 200 : 400, { "content-type": "application/json" });
    response.end(isAsked ? JSON.stringify({ access_token: tokenFor("https://storage.azure.com"), expires_on: String(nowInSeconds() + 3_600), resource: "https://storage.azure.com", token_type: "Bearer" }) : "{}");
  });
  await new Promise<void>((resolve) => identity.listen(0, "127.0.0.1", resolve));
});

afterAll(async () => {
  identity.closeAllConnections();
  await new Promise((resolve) => identity.close(resolve));
  await azurite.stop();
  await rm(folder, { recursive: true });
});

const nowInSeconds = (): number => Math.floor(Date.now() / 1_000);

/** Azurite checks the claims of a token, and not its signature. */
function tokenFor(audience: string): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = nowInSeconds();
  const tenant = "00000000-0000-0000-0000-000000000001";
  return `${part({ alg: "RS256", typ: "JWT" })}.${part({ aud: audience, iss: `https://sts.windows.net/${tenant}/`, iat: now, nbf: now - 60, exp: now + 3_600, tid: tenant })}.${"s".repeat(43)}`;
}

/** The real credentials of @azure/identity in a process of its own, with the managed identity of an App Service. */
async function asc(...args: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const { port } = identity.address() as AddressInfo;
  const env = {
    ...process.env,
    AZURE_STORAGE_CONNECTION_STRING: connectionString,
    AZURE_TOKEN_CREDENTIALS: "ManagedIdentityCredential",
    IDENTITY_ENDPOINT: `http://127.0.0.1:${port}/msi/token`,
    IDENTITY_HEADER: "local",
    NODE_EXTRA_CA_CERTS: join(folder, "cert.pem"),
  };
  return new Promise((resolve) => {
    execFile(process.execPath, ["--import", "tsx", main, ...args], { env, timeout: 60_000 }, (error, stdout, stderr) => resolve({ exitCode: error ? Number(error.code ?? -1) : 0, stdout, stderr }));
  });
}

describe("the command line with Entra ID", () => {
  it("reads blobs, and reads and writes queues and tables, without any key", { timeout: 120_000 }, async () => {
    const missing = await asc("locks", "list", "-c", "locks");
    expect(missing).toMatchObject({ exitCode: 3, stdout: "" });
    expect(missing.stderr).toContain("ContainerNotFound");
    const before = tokens;
    const verified = await asc("verify", "--emulator", "--service", "queue", "--service", "table", "--json");
    expect(verified.exitCode, verified.stderr).toBe(0);
    const report = JSON.parse(verified.stdout) as { checked: number; planned: number; different: number; failed: number; leftOut: { what: string; reason: string }[] };
    expect(report).toMatchObject({ different: 0, failed: 0, checked: report.planned });
    expect(report.checked).toBeGreaterThan(50);
    expect(report.leftOut).toContainEqual(expect.objectContaining({ reason: "it needs a connection string with the account key" }));
    // One sign-in for all services.
    expect(tokens - before).toBe(1);
  });

  it("says in one sentence that nobody is signed in", async () => {
    identity.closeAllConnections();
    const { port } = identity.address() as AddressInfo;
    const env = { PATH: process.env["PATH"], AZURE_STORAGE_CONNECTION_STRING: connectionString, AZURE_TOKEN_CREDENTIALS: "ManagedIdentityCredential", IDENTITY_ENDPOINT: `http://127.0.0.1:${port}/`, IDENTITY_HEADER: "other", NODE_EXTRA_CA_CERTS: join(folder, "cert.pem") };
    const result = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
      execFile(process.execPath, ["--import", "tsx", main, "queue", "peek", "orders"], { env, timeout: 60_000 }, (error, _, stderr) => resolve({ code: error?.code, stderr }));
    });
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/^Could not sign in with Entra ID: sign in with "az login".*\n$/);
  });
});
