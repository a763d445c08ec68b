import { request as send } from "node:http";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { CommandError, exitCodes } from "../../../src/cli/exit-codes.js";
import { startServer } from "../../../src/cli/dashboard/server.js";
import type { DashboardServer } from "../../../src/cli/dashboard/server.js";
import type { Action, InspectedLock, Snapshot } from "../../../src/cli/dashboard/snapshot.js";

const hostile = `</script><script>alert(1)</script>\u202e`;
const performed: Action[] = [];
const options = { allowActions: true };
let server: DashboardServer;
let url: URL;

beforeEach(async () => {
  performed.length = 0;
  options.allowActions = true;
  const dashboard = {
    options,
    snapshot: () => Promise.resolve({ account: hostile } as Snapshot),
    payloadOf: (queue: string, id: string) => (queue === "orders" && id === "m1" ? hostile : undefined),
    inspectLock: (container: string, name: string) => Promise.resolve({ name: `${container}/${name}` } as InspectedLock),
    perform: (action: Action) => {
      performed.push(action);
      return action.kind === "delete" ? Promise.reject(new CommandError(exitCodes.changed, "It has changed.")) : Promise.resolve("It was done.");
    },
  };
  server = await startServer(dashboard, { script: "page();", style: "body{}" }, 0);
  url = new URL(server.url);
});
afterEach(() => server.stop());

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** `fetch` would not send another `Host`. */
function ask(path: string, { method = "GET", headers = {}, body = "" }: { method?: string; headers?: Record<string, string>; body?: string } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = send({ host: url.hostname, port: url.port, path, method, headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, body: text }));
    });
    request.on("error", reject).end(body);
  });
}

const act = (action: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(`${url.pathname}actions`, { method: "POST", headers: { origin: url.origin, "content-type": "application/json", ...headers }, body: typeof action === "string" ? action : JSON.stringify(action) });

describe("the server of the dashboard", () => {
  it("listens on the loopback address only, under a token that is another one each time", async () => {
    expect(url.hostname).toBe("127.0.0.1");
    expect(url.pathname).toMatch(/^\/[\w-]{32}\/$/);
    const other = await startServer({ options } as never, { script: "", style: "" }, 0);
    expect(new URL(other.url).pathname).not.toBe(url.pathname);
    await other.stop();
  });

  it("serves the page with a policy that allows nothing from elsewhere, and no inline script", async () => {
    for (const [path, type] of [["", "text/html"], ["page.js", "text/javascript"], ["page.css", "text/css"], ["icon.svg", "image/svg+xml"]] as const) {
      const { status, headers, body } = await ask(`${url.pathname}${path}`);
      expect(status, path).toBe(200);
      expect(headers["content-type"]).toContain(type);
      expect(headers["content-security-policy"]).toMatch(/default-src 'none'; script-src 'self';.*frame-ancestors 'none'; require-trusted-types-for 'script'/);
      expect(headers["content-security-policy"]).not.toContain("unsafe");
      expect(headers).toMatchObject({ "cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin" });
      if (path === "") expect(body).not.toMatch(/<script>|<style|style=|\son\w+=|https?:/);
    }
  });

  it.each([["no token", "/"], ["another token", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/snapshot"], ["a part of the token", ""], ["an address that is none", "//["]])("refuses %s", async (_, path) => {
    const { status, body } = await ask(path === "" ? `${url.pathname.slice(0, 8)}/snapshot` : path);
    expect(status).toBe(403);
    expect(body).not.toContain(hostile);
  });

  it.each(["localhost", "evil.example", "127.0.0.1", "127.0.0.1.evil.example"])("refuses the host %s: a name can be pointed to this address", async (host) => {
    expect(await ask(`${url.pathname}snapshot`, { headers: { host: host === "127.0.0.1" ? host : `${host}:${url.port}` } })).toMatchObject({ status: 403 });
  });

  it("refuses the origin of another page, also with the token", async () => {
    for (const origin of ["https://evil.example", "null", `http://localhost:${url.port}`, `${url.origin}.evil.example`]) {
      expect(await ask(`${url.pathname}snapshot`, { headers: { origin } })).toMatchObject({ status: 403 });
      expect(await act({ kind: "break" }, { origin })).toMatchObject({ status: 403 });
    }
    expect(performed).toEqual([]);
  });

  it("sends what is stored as JSON, of which no browser makes a page", async () => {
    const { headers, body } = await ask(`${url.pathname}snapshot`);
    expect(headers["content-type"]).toContain("application/json");
    expect(JSON.parse(body)).toEqual({ account: hostile });
    expect(JSON.parse((await ask(`${url.pathname}payload?queue=orders&id=m1&version=1`)).body)).toEqual({ payload: hostile });
    expect(await ask(`${url.pathname}payload?queue=orders&id=m2&version=1`)).toMatchObject({ status: 404 });
  });

  it("does what the page asks for", async () => {
    const action = { kind: "break", container: "c", name: "n", epoch: 7, etag: '"1"' };
    expect(await act(action)).toMatchObject({ status: 200, body: '{"message":"It was done."}' });
    expect(performed).toEqual([action]);
    expect(await act({ kind: "delete", queue: "orders", id: "m1", version: "v" })).toMatchObject({ status: 409, body: '{"error":"It has changed."}' });
  });

  it.each([
    ["what is no JSON", "{"],
    ["what is no object", "null"],
    ["an unknown action", { kind: "purge" }],
    ["an action on nothing", { kind: "break", container: "c", name: "n" }],
    ["an epoch that is none", { kind: "break", container: "c", name: "n", epoch: "7", etag: "1" }],
    ["another type of a name", { kind: "redrive", queue: ["orders"], id: "m1", version: "v" }],
    ["more than an action", { kind: "redrive", queue: "q".repeat(70_000), id: "m1", version: "v" }],
  ])("does not do %s", async (_, action) => {
    expect(await act(action)).toMatchObject({ status: 400 });
    expect(performed).toEqual([]);
  });

  it("acts on POST with JSON of its own page only", async () => {
    const action = { kind: "redrive", queue: "orders", id: "m1", version: "v" };
    expect(await ask(`${url.pathname}actions?kind=redrive&queue=orders&id=m1&version=v`)).toMatchObject({ status: 404 });
    expect(await ask(`${url.pathname}actions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(action) })).toMatchObject({ status: 403 });
    expect(await act(action, { "content-type": "text/plain" })).toMatchObject({ status: 403 });
    expect(await ask(`${url.pathname}actions`, { method: "PUT" })).toMatchObject({ status: 405 });
    expect(performed).toEqual([]);
  });

  it("is read-only without the switch, whatever the page says", async () => {
    options.allowActions = false;
    expect(await act({ kind: "redrive", queue: "orders", id: "m1", version: "v" })).toMatchObject({ status: 403, body: expect.stringContaining("--allow-actions") as string });
    expect(await ask(`${url.pathname}lock?container=c&name=n`)).toMatchObject({ status: 403 });
    expect(performed).toEqual([]);
  });

  it("ends with its connections", async () => {
    await ask(url.pathname);
    await server.stop();
    await expect(ask(url.pathname)).rejects.toThrow("ECONNREFUSED");
  });
});
