import { randomUUID } from "node:crypto";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { accountSas, freshShare } from "./support.js";

/**
 * The tables "use attempts by lease state" of Microsoft's articles "Lease File" and "Lease Share", over HTTP: each operation that the articles
 * name, in each state of the lease, with the id of the lease (A), another one (B) and none. `test/testing/file-share/lease-tables.test.ts` has
 * the lease operations themselves.
 */
const ids = { A: "11111111-1111-1111-1111-111111111111", B: "22222222-2222-2222-2222-222222222222" } as const;
type Id = keyof typeof ids | "none";

let server: FileShareServer;
let sas: string;

beforeAll(async () => {
  server = await startFileShareServer();
  server.clock.pause();
  sas = accountSas(server, "rwdlc", "sco", 10 * 86_400_000);
});
afterAll(() => server.stop());

/** A request, as `PUT share/file?comp=range`. */
async function send(request: string, headers: Record<string, string> = {}, body?: string): Promise<Response> {
  const [method = "", path = ""] = request.split(" ");
  const url = `${server.url}/${path}${path.includes("?") ? "&" : "?"}${sas}`;
  return fetch(url, { method, headers: { "x-ms-version": "2021-10-04", ...headers }, ...(body === undefined ? {} : { body }) });
}

async function must(request: string, headers: Record<string, string> = {}, body?: string): Promise<Response> {
  const response = await send(request, headers, body);
  if (!response.ok) throw new Error(`${request}: ${response.status} ${await response.text()}`);
  return response;
}

const lease = (path: string, action: string, headers: Record<string, string> = {}): Promise<Response> =>
  must(`PUT ${path}${path.includes("?") ? "&" : "?"}comp=lease`, { "x-ms-lease-action": action, ...headers });
const acquire = (path: string, seconds: number): Promise<Response> => lease(path, "acquire", { "x-ms-lease-duration": String(seconds), "x-ms-proposed-lease-id": ids.A });
const withId = (id: Id): Record<string, string> => (id === "none" ? {} : { "x-ms-lease-id": ids[id] });

/** `passes`, or `412 LeaseIdMissing`. */
function outcome(response: Response): string {
  return response.ok ? "passes" : `${response.status} ${response.headers.get("x-ms-error-code") ?? ""}`;
}

interface Operation {
  readonly request: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

const start = { "x-ms-type": "file", "x-ms-content-length": "3" };
const rows = <Name extends string, State extends string>(names: readonly Name[], states: readonly State[]): [Name, State, Id][] =>
  names.flatMap((name) => states.flatMap((state) => (["A", "B", "none"] as const).map((id): [Name, State, Id] => [name, state, id])));

describe("Lease File: use attempts by lease state", () => {
  let share: string;
  beforeAll(async () => {
    share = (await freshShare(server)).name;
    await must(`PUT ${share}/source`, start);
  });

  const operations = {
    "Create File": { request: "PUT ", headers: start },
    "Set File Metadata": { request: "PUT ?comp=metadata", headers: { "x-ms-meta-a": "1" } },
    "Set File Properties": { request: "PUT ?comp=properties" },
    "Put Range: update": { request: "PUT ?comp=range", headers: { "x-ms-write": "update", "x-ms-range": "bytes=0-2" }, body: "abc" },
    "Put Range: clear": { request: "PUT ?comp=range", headers: { "x-ms-write": "clear", "x-ms-range": "bytes=0-2" } },
    "Copy File, the destination": { request: "PUT ", headers: { "x-ms-copy-source": "$source" } },
    "Delete File": { request: "DELETE " },
    "Get File": { request: "GET " },
    "Get File Properties": { request: "HEAD " },
    "Get File Metadata": { request: "GET ?comp=metadata" },
    "Get File Metadata, as HEAD": { request: "HEAD ?comp=metadata" },
    "List Ranges": { request: "GET ?comp=rangelist" },
  } as const satisfies Record<string, Operation>;
  type Name = keyof typeof operations;
  const reads: readonly Name[] = ["Get File", "Get File Properties", "Get File Metadata", "Get File Metadata, as HEAD", "List Ranges"];

  const never = "412 LeaseNotPresentWithFileOperation";
  const lost = "412 LeaseLostWithFileOperation";
  const other = "412 LeaseIdMismatchWithFileOperation";
  /** Of a write. A read differs in one cell: it needs no id. */
  const expected = {
    available: { A: never, B: never, none: "passes" },
    leased: { A: "passes", B: other, none: "412 LeaseIdMissing" },
    broken: { A: lost, B: lost, none: "passes" },
  } as const;
  type State = keyof typeof expected;

  it.each(rows(Object.keys(operations) as Name[], Object.keys(expected) as State[]))("%s, %s, with the id %s", async (name, state, id) => {
    const path = `${share}/${randomUUID()}`;
    await must(`PUT ${path}`, start);
    if (state !== "available") await acquire(path, -1);
    if (state === "broken") await lease(path, "break");
    const { request, headers, body }: Operation = operations[name];
    const sent: Record<string, string> = { ...headers, ...withId(id) };
    if (sent["x-ms-copy-source"] !== undefined) sent["x-ms-copy-source"] = `${server.url}/${share}/source?${sas}`;
    const isRead = reads.includes(name);
    const passes = isRead && id === "none" ? "passes" : expected[state][id];
    expect(outcome(await send(request.replace(" ", ` ${path}`), sent, body))).toBe(passes);
    const after = await send(`HEAD ${path}`);
    if (name === "Delete File" && passes === "passes") expect(after.status).toBe(404);
    else expect(after.headers.get("x-ms-lease-state")).toBe(state === "broken" && passes === "passes" && !isRead ? "available" : state);
  });

  it("a leased file can be listed, copied from and released by a break without the id, and its share deleted", async () => {
    const { name } = await freshShare(server);
    await must(`PUT ${name}/file`, start);
    await acquire(`${name}/file`, -1);
    expect(await (await must(`GET ${name}?restype=directory&comp=list`)).text()).toContain("<Name>file</Name>");
    await must(`PUT ${name}/copy`, { "x-ms-copy-source": `${server.url}/${name}/file?${sas}` });
    await acquire(`${name}/copy`, -1);
    await lease(`${name}/file`, "break");
    await must(`DELETE ${name}?restype=share`);
  });
});

describe("Lease Share: use attempts by lease state", () => {
  const operations = {
    "Delete Share": { request: "DELETE ?restype=share" },
    "Set Share Metadata": { request: "PUT ?restype=share&comp=metadata", headers: { "x-ms-meta-a": "1" } },
    "Set Share Properties": { request: "PUT ?restype=share&comp=properties", headers: { "x-ms-share-quota": "7" } },
    "Set Share ACL": { request: "PUT ?restype=share&comp=acl" },
    "Get Share Properties": { request: "GET ?restype=share" },
    "Get Share Metadata": { request: "GET ?restype=share&comp=metadata" },
    "Get Share Metadata, as HEAD": { request: "HEAD ?restype=share&comp=metadata" },
    "Get Share ACL": { request: "GET ?restype=share&comp=acl" },
  } as const satisfies Record<string, Operation>;
  type Name = keyof typeof operations;
  const reads: readonly Name[] = ["Get Share Properties", "Get Share Metadata", "Get Share Metadata, as HEAD", "Get Share ACL"];

  const never = "412 LeaseNotPresentWithContainerOperation";
  const lost = "412 LeaseLost";
  const other = "412 LeaseIdMismatchWithContainerOperation";
  const missing = "412 LeaseIdMissing";
  /** Of a deletion or a change; Microsoft's table has the changes among "other operations", and in the text that they need the id. */
  const expected = {
    available: { A: never, B: never, none: "passes" },
    leased: { A: "passes", B: other, none: missing },
    breaking: { A: "passes", B: other, none: missing },
    broken: { A: lost, B: lost, none: "passes" },
    expired: { A: lost, B: lost, none: "passes" },
  } as const;
  type State = keyof typeof expected;

  it.each(rows(Object.keys(operations) as Name[], Object.keys(expected) as State[]))("%s, %s, with the id %s", async (name, state, id) => {
    const path = `s${randomUUID()}`;
    await must(`PUT ${path}?restype=share`);
    const resource = `${path}?restype=share`;
    if (state !== "available") await acquire(resource, 15);
    if (state === "breaking" || state === "broken") await lease(resource, "break", { "x-ms-lease-break-period": "10" });
    if (state === "broken" || state === "expired") server.clock.advance(15_000);
    const { request, headers, body }: Operation = operations[name];
    const passes = reads.includes(name) && id === "none" ? "passes" : expected[state][id];
    expect(outcome(await send(request.replace(" ", ` ${path}`), { ...headers, ...withId(id) }, body))).toBe(passes);
    const after = await send(`HEAD ${resource}`);
    if (name === "Delete Share" && passes === "passes") expect(after.status).toBe(404);
    else expect(after.headers.get("x-ms-lease-state")).toBe(state);
  });
});
