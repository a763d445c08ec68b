import { randomUUID } from "node:crypto";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { accountSas } from "./support.js";

const A = "e9890485-bf47-4d9a-b3d0-aceb18506124";
const B = "6291baf2-9d1c-4f64-aa20-c16d8e8ac666";

/** What an answer must have. An ETag is compared with the last one that the same URL gave. */
interface Expected {
  code?: string;
  message?: string;
  etag?: "new" | "same";
  /** State, status, and duration if there is one. */
  lease?: string;
  leaseId?: string | null;
  leaseTime?: string;
  body?: string;
}
type Step = [request: string, headers: Record<string, string>, status: number, expected?: Expected];

const createShare: Step = ["PUT share?restype=share", {}, 201, { etag: "new" }];
const deleteShare: Step = ["DELETE share?restype=share", {}, 202];
const createDirectory: Step = ["PUT share/dir?restype=directory", {}, 201, { etag: "new" }];
const put = (file: string, status = 201, headers: Record<string, string> = {}, expected: Expected = { etag: "new" }): Step => [
  `PUT share/${file}`,
  { "x-ms-type": "file", "x-ms-content-length": "10", ...headers },
  status,
  expected,
];
const createFile = put("dir/file");
const lease = (path: string, action: string, headers: Record<string, string>, status: number, expected: Expected = {}): Step => [
  `PUT ${path}${path.includes("?") ? "&" : "?"}comp=lease`,
  { "x-ms-lease-action": action, ...headers },
  status,
  expected,
];
const acquire = (path: string, id = A, status = 201, expected: Expected = { etag: "same", leaseId: id }): Step =>
  lease(path, "acquire", { "x-ms-lease-duration": "-1", "x-ms-proposed-lease-id": id }, status, expected);
const head = (path: string, state: string, etag: "new" | "same" = "same"): Step => [`HEAD ${path}`, {}, 200, { etag, lease: state }];
const withId = (id = A): Record<string, string> => ({ "x-ms-lease-id": id });
const range = (from: number, to: number, write = "update"): Record<string, string> => ({ "x-ms-range": `bytes=${from}-${to}`, "x-ms-write": write });

const file = "share/dir/file";
const leased = "leased locked infinite";
const missing: Expected = {
  code: "LeaseIdMissing",
  message: "There is currently a lease on the file and no lease ID was specified in the request.",
};
const mismatch: Expected = {
  code: "LeaseIdMismatchWithFileOperation",
  message: "The lease ID specified did not match the lease ID for the file.",
};

const recordings: [string, Step[]][] = [
  ["a share that exists is not created again", [
    createShare,
    ["PUT share?restype=share", {}, 409, { code: "ShareAlreadyExists", message: "The specified share already exists." }],
    deleteShare,
  ]],
  ["the properties of a directory have the ETag of its creation", [
    createShare, createDirectory, ["GET share/dir?restype=directory", {}, 200, { etag: "same" }], deleteShare,
  ]],
  ["a file in a missing directory has no parent", [
    createShare, createDirectory,
    ["DELETE share/newdir/file", {}, 404, { code: "ParentNotFound", message: "The specified parent path does not exist." }],
  ]],
  ["each range that is written or cleared changes the ETag, and reading does not", [
    createShare, createDirectory, createFile,
    [`PUT ${file}?comp=range`, { ...range(0, 4), body: "Hello" }, 201, { etag: "new" }],
    [`PUT ${file}?comp=range`, { ...range(5, 9), body: "World" }, 201, { etag: "new" }],
    [`GET ${file}`, { "x-ms-range": "bytes=0-7" }, 206, { etag: "same", lease: "available unlocked", body: "HelloWor" }],
    [`PUT ${file}?comp=range`, range(1, 8, "clear"), 201, { etag: "new" }],
    [`GET ${file}`, {}, 200, { etag: "same", lease: "available unlocked", body: "H\0\0\0\0\0\0\0\0d" }],
  ]],
  ["metadata changes the ETag", [
    createShare, createDirectory, createFile,
    [`PUT ${file}?comp=metadata`, { "x-ms-meta-a": "b" }, 200, { etag: "new" }],
    head(file, "available unlocked"),
  ]],
  ["acquire with a proposed id, then release", [
    createShare, createDirectory, createFile,
    acquire(file), head(file, leased),
    lease(file, "release", withId(), 200, { etag: "same" }), head(file, "available unlocked"),
  ]],
  ["acquire without a proposed id gives one", [
    createShare, createDirectory, createFile,
    lease(file, "acquire", { "x-ms-lease-duration": "-1" }, 201, { etag: "same", leaseId: "any" }), head(file, leased),
  ]],
  ["acquire again by another", [
    createShare, createDirectory, createFile, acquire(file),
    acquire(file, B, 409, { code: "LeaseAlreadyPresent", message: "There is already a lease present." }),
  ]],
  ["acquire again with the same id", [createShare, createDirectory, createFile, acquire(file), acquire(file)]],
  ["a file lease has no duration but for ever", [
    createShare, createDirectory, createFile,
    lease(file, "acquire", { "x-ms-lease-duration": "20" }, 400, {
      code: "InvalidHeaderValue",
      message: "The value for one of the HTTP headers is not in the correct format.",
    }),
  ]],
  ["change the id", [
    createShare, createDirectory, createFile, acquire(file, B),
    lease(file, "change", { ...withId(B), "x-ms-proposed-lease-id": A }, 200, { etag: "same", leaseId: A }),
  ]],
  ["change or break what is not leased", [
    createShare, createDirectory, createFile,
    lease(file, "change", { ...withId(B), "x-ms-proposed-lease-id": A }, 409, {
      code: "LeaseNotPresentWithLeaseOperation",
      message: "There is currently no lease on the file.",
    }),
    lease(file, "break", {}, 409, { code: "LeaseNotPresentWithLeaseOperation", message: "There is currently no lease on the file." }),
  ]],
  ["break at once, then release", [
    createShare, createDirectory, createFile, acquire(file), head(file, leased),
    lease(file, "break", {}, 202, { etag: "same", leaseTime: "0", leaseId: null }), head(file, "broken unlocked"),
    lease(file, "release", withId(), 200, { etag: "same" }),
  ]],
  ["break what is broken", [
    createShare, createDirectory, createFile, acquire(file),
    lease(file, "break", {}, 202, { etag: "same", leaseTime: "0" }), lease(file, "break", {}, 202, { etag: "same", leaseTime: "0" }),
    lease(file, "release", withId(), 200, { etag: "same" }),
  ]],
  ["acquire what is broken", [
    createShare, createDirectory, createFile, acquire(file),
    lease(file, "break", {}, 202, { leaseTime: "0" }), head(file, "broken unlocked"), acquire(file, B), head(file, leased),
  ]],
  ["a write without an id to a broken lease makes the file available", [
    createShare, createDirectory, createFile, acquire(file), lease(file, "break", {}, 202),
    [`PUT ${file}?comp=metadata`, {}, 200, { etag: "new" }], head(file, "available unlocked"),
  ]],
  ["replacing a leased file needs the id, and keeps the lease", [
    createShare, createDirectory, createFile, acquire(file), head(file, leased),
    put("dir/file", 412, {}, missing), put("dir/file", 201, withId()),
    [`GET ${file}`, {}, 200, { etag: "same", lease: leased }],
    lease(file, "release", withId(), 200, { etag: "same" }),
  ]],
  ["deleting a leased file needs the id", [
    createShare, createDirectory, createFile, acquire(file),
    [`DELETE ${file}`, {}, 412, missing], [`DELETE ${file}`, withId(), 202],
  ]],
  ["reading a leased file needs no id, but a right one", [
    createShare, createDirectory, createFile, acquire(file),
    [`GET ${file}`, {}, 200, { etag: "same", lease: leased }], [`GET ${file}`, withId(B), 412, mismatch], [`GET ${file}`, withId(), 200, { etag: "same", lease: leased }],
    [`HEAD ${file}`, {}, 200, { etag: "same", lease: leased }],
    [`HEAD ${file}`, withId(B), 412, { code: "LeaseIdMismatchWithFileOperation" }],
    [`HEAD ${file}`, withId(), 200, { etag: "same", lease: leased }],
    [`GET ${file}?comp=rangelist`, {}, 200, { etag: "same" }], [`GET ${file}?comp=rangelist`, withId(B), 412, mismatch],
    [`GET ${file}?comp=rangelist`, withId(), 200, { etag: "same" }],
  ]],
  ["metadata, properties and ranges of a leased file need the id", [
    createShare, createDirectory, createFile, acquire(file),
    [`PUT ${file}?comp=metadata`, {}, 412, missing], [`PUT ${file}?comp=metadata`, withId(), 200, { etag: "new" }],
    [`PUT ${file}?comp=properties`, {}, 412, missing], [`PUT ${file}?comp=properties`, withId(), 200, { etag: "new" }],
    [`PUT ${file}?comp=range`, { ...range(0, 4), body: "Hello" }, 412, missing],
    [`PUT ${file}?comp=range`, { ...range(0, 4), ...withId(), body: "Hello" }, 201, { etag: "new" }],
    lease(file, "release", withId(), 200, { etag: "same" }),
  ]],
  ["metadata and ranges with a wrong id", [
    createShare, createDirectory, createFile, acquire(file),
    [`PUT ${file}?comp=metadata`, withId(B), 412, mismatch], [`PUT ${file}?comp=range`, { ...range(0, 4), ...withId(B), body: "Hello" }, 412, mismatch],
  ]],
  ["an id for a file that was never leased", [
    createShare, createDirectory, createFile,
    [`GET ${file}?comp=rangelist`, withId(), 412, { code: "LeaseNotPresentWithFileOperation", message: "There is currently no lease on the file." }],
  ]],
  ["an id for a file whose lease was released", [
    createShare, createDirectory, createFile, acquire(file), lease(file, "release", withId(), 200),
    [`PUT ${file}?comp=metadata`, withId(), 412, { code: "LeaseLostWithFileOperation" }],
  ]],
  ["copying onto a leased file needs the id", [
    createShare, createDirectory, createFile, acquire(file), put("dir/copied"),
    [`PUT ${file}`, { "x-ms-copy-source": "$share/dir/copied" }, 412, missing],
    [`PUT ${file}`, { "x-ms-copy-source": "$share/dir/copied", ...withId() }, 202, { etag: "new" }],
    head(file, leased),
  ]],
  ["renaming takes the lease along", [
    createShare, put("source"), acquire("share/source"),
    ["PUT share/dest?comp=rename", { "x-ms-file-rename-source": "$share/source", "x-ms-source-lease-id": A }, 200, { etag: "new" }],
    head("share/dest", leased), ["HEAD share/source", {}, 404, { code: "ResourceNotFound" }],
  ]],
  ["renaming a leased file needs the id", [
    createShare, put("source"), acquire("share/source"),
    ["PUT share/dest?comp=rename", { "x-ms-file-rename-source": "$share/source" }, 412, missing], head("share/source", leased),
  ]],
  ["renaming onto a leased file needs its id", [
    createShare, put("source"), put("dest"), acquire("share/dest"),
    ["PUT share/dest?comp=rename", { "x-ms-file-rename-source": "$share/source", "x-ms-file-rename-replace-if-exists": "true" }, 412, missing],
    head("share/source", "available unlocked"), head("share/dest", leased),
  ]],
  ["renaming onto a leased file with its id ends that lease", [
    createShare, put("source"), put("dest"), acquire("share/dest"),
    ["PUT share/dest?comp=rename", { "x-ms-file-rename-source": "$share/source", "x-ms-file-rename-replace-if-exists": "true", "x-ms-destination-lease-id": A }, 200, { etag: "new" }],
    head("share/dest", "available unlocked"), ["HEAD share/source", {}, 404, { code: "ResourceNotFound" }],
  ]],
  ["renaming a leased file onto a leased file with both ids leaves the target leased", [
    createShare, put("source"), acquire("share/source", B), put("dest"), acquire("share/dest"),
    [
      "PUT share/dest?comp=rename",
      { "x-ms-file-rename-source": "$share/source", "x-ms-file-rename-replace-if-exists": "true", "x-ms-source-lease-id": B, "x-ms-destination-lease-id": A },
      200,
      { etag: "new" },
    ],
    head("share/dest", leased), ["HEAD share/source", {}, 404, { code: "ResourceNotFound" }],
  ]],
  ["a copy that has ended cannot be aborted", [
    createShare, put("source"), ["PUT share/copy", { "x-ms-copy-source": "$share/source" }, 202, { etag: "new" }],
    ["PUT share/copy?comp=copy&copyid=id", { "x-ms-copy-action": "abort" }, 400, { code: "InvalidQueryParameterValue" }],
    [
      `PUT share/copy?comp=copy&copyid=${A}`,
      { "x-ms-copy-action": "abort" },
      409,
      { code: "NoPendingCopyOperation", message: "There is currently no pending copy operation." },
    ],
  ]],
  ["a lease on a missing file", [
    createShare,
    acquire("share/garbage", A, 404, { code: "ResourceNotFound", message: "The specified resource does not exist." }),
    lease("share/garbage", "release", withId("id"), 400, { code: "InvalidHeaderValue" }),
  ]],
  ["a share lease of 10 seconds", [
    createShare, lease("share?restype=share", "acquire", { "x-ms-lease-duration": "10" }, 400, { code: "InvalidHeaderValue" }), deleteShare,
  ]],
  ["a share lease breaks over its period", [
    createShare, acquire("share?restype=share"),
    lease("share?restype=share", "break", { "x-ms-lease-break-period": "20" }, 202, { etag: "same", leaseTime: "20" }),
    ["GET share?restype=share", {}, 200, { etag: "same", lease: "breaking locked" }],
    ["DELETE share?restype=share", {}, 412, { code: "LeaseIdMissing" }], ["DELETE share?restype=share", withId(), 202],
  ]],
  ["a share lease is needed for its metadata and deletion", [
    createShare, acquire("share?restype=share"),
    ["PUT share?restype=share&comp=metadata", {}, 412, { code: "LeaseIdMissing" }],
    ["PUT share?restype=share&comp=metadata", withId(B), 412, { code: "LeaseIdMismatchWithContainerOperation" }],
    ["PUT share?restype=share&comp=metadata", withId(), 200, { etag: "new" }],
    ["DELETE share?restype=share", {}, 412, { code: "LeaseIdMissing" }],
  ]],
  ["an id for a share that was never leased", [
    createShare,
    ["DELETE share?restype=share", withId(), 412, { code: "LeaseNotPresentWithContainerOperation", message: "There is currently no lease on the file share." }],
    ["PUT share?restype=share&comp=metadata", withId(), 412, { code: "LeaseNotPresentWithContainerOperation" }],
    deleteShare,
  ]],
];

describe("the file-share server answers as the service was recorded", () => {
  let server: FileShareServer;
  beforeAll(async () => {
    server = await startFileShareServer();
  });
  afterAll(() => server.stop());

  it.each(recordings)("%s", async (_name, steps) => {
    const share = `s${randomUUID()}`;
    const sas = accountSas(server, "rwdlc");
    const etags = new Map<string, string>();
    for (const [request, { body, ...headers }, status, expected = {}] of steps) {
      const [method = "", target = ""] = request.split(" ");
      const path = target.replace(/^share/, share);
      const url = `${server.url}/${path}${path.includes("?") ? "&" : "?"}${sas}`;
      for (const [name, value] of Object.entries(headers)) {
        if (value.startsWith("$share")) headers[name] = `${server.url}/${value.replace("$share", share)}?${sas}`;
      }
      const answer = await fetch(url, { method, headers: { "x-ms-version": "2021-10-04", ...headers }, ...(body === undefined ? {} : { body }) });
      const text = await answer.text();
      const what = `${request} ${JSON.stringify(headers)}`;
      expect(`${answer.status} ${answer.headers.get("x-ms-error-code") ?? ""}`, what).toBe(`${status} ${expected.code ?? ""}`);
      expect(answer.headers.get("x-ms-version"), what).toBe("2021-10-04");
      expect(answer.headers.get("x-ms-request-id"), what).toBeTruthy();
      compare(answer, text, expected, etags, path.split("?")[0] ?? "", what);
      if (status >= 400 && method !== "HEAD") expect(text, what).toContain(`<Error><Code>${expected.code ?? "?"}</Code><Message>${expected.message ?? ""}`);
    }
  });
});

function compare(answer: Response, text: string, expected: Expected, etags: Map<string, string>, path: string, what: string): void {
  const header = (name: string): string | undefined => answer.headers.get(name) ?? undefined;
  const etag = header("etag");
  if (expected.etag !== undefined) {
    expect(etag, what).toMatch(/^"0x8D[0-9A-F]+"$/);
    expect(etag === etags.get(path) ? "same" : "new", what).toBe(expected.etag);
  }
  if (etag !== undefined) etags.set(path, etag);
  const lease = ["x-ms-lease-state", "x-ms-lease-status", "x-ms-lease-duration"].map(header).filter(Boolean).join(" ");
  if (expected.lease !== undefined) expect(lease, what).toBe(expected.lease);
  if (expected.leaseId === "any") expect(header("x-ms-lease-id"), what).toMatch(/^[0-9a-f-]{36}$/);
  else if (expected.leaseId !== undefined) expect(header("x-ms-lease-id") ?? null, what).toBe(expected.leaseId);
  if (expected.leaseTime !== undefined) expect(header("x-ms-lease-time"), what).toBe(expected.leaseTime);
  if (expected.body !== undefined) expect(text, what).toBe(expected.body);
}
