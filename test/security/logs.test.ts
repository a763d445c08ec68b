import { format } from "node:util";

import { AzureLogger, setLogLevel } from "@azure/logger";
import { afterEach, beforeEach, expect, it } from "vitest";

import { BlobLocks, IdAllocator, jsonBlob, reportFailuresTo, WorkBalancer } from "../../src/index.js";
import type { LeaseUnavailableError } from "../../src/index.js";
import { readSources } from "../architecture/source.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";

let lines: string[];
const before = AzureLogger.log;

beforeEach(() => {
  lines = [];
  setLogLevel("verbose");
  AzureLogger.log = (...args: unknown[]) => void lines.push(format(...args));
});
afterEach(() => {
  setLogLevel(undefined);
  AzureLogger.log = before;
});

it("a log line is one text of the library: no error object, whose message or details may have a payload", () => {
  const wrong = [...readSources()].flatMap(([path, text]) =>
    [...text.matchAll(/logger\.(?:error|warning|info|verbose)\(((?:`(?:[^`\\]|\\.)*`|[^`()]|\([^()]*\))*)\)/g)]
      .map(([, args = ""]) => args.replace(/`(?:[^`\\]|\\.)*`/g, "text").trim())
      .filter((args) => !/^(?:text|message|loss\.message),?$/.test(args))
      .map((args) => `${path}: ${args}`),
  );
  expect(wrong).toEqual([]);
});

it("a failed reservation of ids logs the kind of the error, and nothing of the service's message", async () => {
  const blob = new FakeBlockBlob(new FakeService());
  blob.download = () => Promise.reject(Object.assign(new Error("payload-4711 is not allowed"), { name: "RestError", statusCode: 403, code: "AuthorizationFailure" }));
  await expect(new IdAllocator(jsonBlob(blob)).next()).rejects.toThrow();
  expect(lines.join("\n")).toContain("no ids could be reserved");
  expect(lines.join("\n")).toContain("AuthorizationFailure");
  expect(lines.join("\n")).not.toContain("payload-4711");
});

it("waiters without the right to draw tickets log a URL without its signature", async () => {
  const server = new FakeLeaseServer();
  const container = server.container();
  const withSas = { ...container, getBlockBlobClient: (name: string) => Object.assign(container.getBlockBlobClient(name), { url: `https://account.test/container/${name}?sig=secret-signature` }) };
  const holder = await new BlobLocks(server.container()).acquire("a");
  server.intercept = (operation) => operation === "append" || operation === "create" ? status(403, "AuthorizationPermissionMismatch") : undefined;
  await expect(new BlobLocks(withSas).acquire("a", { waitInMs: 300 })).rejects.toThrow();
  server.intercept = undefined;
  await holder.release();
  expect(lines.join("\n")).toContain("cannot draw tickets");
  expect(lines.join("\n")).not.toContain("secret-signature");
});

const hostile = ["\n[error] forged line", "\r\u001b[2K", "\u009b2J", "\u007f", "\u202egnp.exe", "\u2028x"];

it.each(hostile)("the name of a holder adds no line and no control sequence to an error: %j", async (text) => {
  const server = new FakeLeaseServer();
  const holder = await new BlobLocks(server.container(), { holder: `host${text}` }).acquire("a");
  const error = await new BlobLocks(server.container()).acquire("a", { waitInMs: 0 }).catch((thrown: unknown) => thrown as LeaseUnavailableError);
  await holder.release();
  expect(error).toMatchObject({ code: "LEASE_UNAVAILABLE", holder: `host${text}` });
  expect((error as Error).message).toContain("its holder is host ");
  expect((error as Error).message).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
  expect(String((error as Error).stack).split("\n").slice(0, 2).join("\n")).not.toContain(text);
  expect(lines.join("\n")).not.toContain(text);
});

it.each(hostile)("the name of a balancer adds none to a line of the log, nor to a report: %j", async (text) => {
  const reported: string[] = [];
  reportFailuresTo(({ component, message }) => void reported.push(component, message));
  try {
    const server = new FakeLeaseServer();
    const balancer = new WorkBalancer(new BlobLocks(server.container()), `feeds${text}`, 1, () => undefined);
    const acquired = new Promise<void>((resolve) => {
      balancer.on("acquired", () => {
        resolve();
        throw new Error("a listener");
      });
    });
    await balancer.start();
    await acquired;
    await balancer.stop({ drainTimeoutInMs: 0 });
    const said = [...lines, ...reported].filter((line) => line.includes("feeds"));
    expect(said.length).toBeGreaterThan(1);
    for (const line of said) expect(line).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
  } finally {
    reportFailuresTo("console");
  }
});
