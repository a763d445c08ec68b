/* The tests of the service, with the test kit of the library: an Azurite of their own, and proxies that lose responses. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { dropResponse, isBatch, isWrite, replaceEndpoints, respondWith, startAzurite, startFaultProxy } from "azure-storage-concurrency/testing";
import type { Azurite, FaultProxy } from "azure-storage-concurrency/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readBooks } from "./books.js";
import type { Books } from "./books.js";
import { openClients } from "./clients.js";
import { listReports } from "./jobs.js";
import { startLoad } from "./load.js";
import type { OrderRequest, PlacedOrder } from "./orders.js";
import { startService } from "./service.js";
import type { Service } from "./service.js";
import { readSettings } from "./settings.js";
import type { Role } from "./settings.js";

let azurite: Azurite;
let proxies: { readonly table: FaultProxy; readonly queue: FaultProxy };
let services: Service[];
let prefix: string;
let tests = 0;

beforeAll(async () => {
  azurite = await startAzurite();
});
afterAll(() => azurite.stop());

beforeEach(async () => {
  prefix = `shop${++tests}`;
  services = [];
  const [table, queue] = await Promise.all([azurite.tableUrl, azurite.queueUrl].map((url) => startFaultProxy(url)));
  proxies = { table: table!, queue: queue! };
});
afterEach(async () => {
  for (const proxy of Object.values(proxies)) proxy.setRules([]);
  await Promise.all(services.map((service) => service.stop()));
  await Promise.all(Object.values(proxies).map((proxy) => proxy.stop()));
});

const connectionString = (): string => replaceEndpoints(azurite.connectionString, { tableUrl: proxies.table.url, queueUrl: proxies.queue.url });

async function start(instance: string, roles: readonly Role[] = ["api", "payments"], closeEveryInMs?: number): Promise<Service> {
  const service = await startService({ instance, connectionString: connectionString(), prefix, roles, port: 0, closeEveryInMs }, () => undefined);
  services.push(service);
  return service;
}

const order: OrderRequest = { region: "eu", customer: "ann", amount: 1_250, card: "good" };

async function post({ url }: Service, key: string | undefined, body: unknown): Promise<{ status: number; body: PlacedOrder }> {
  const headers = { "content-type": "application/json", ...(key !== undefined && { "idempotency-key": key }) };
  const response = await fetch(`${url}/orders`, { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as PlacedOrder };
}

const clients = (): ReturnType<typeof openClients> => openClients({ connectionString: azurite.connectionString, prefix });

/** The books when all payments are booked. */
async function settledBooks(placed: ReadonlyMap<string, OrderRequest>): Promise<Books> {
  let books = await readBooks(clients(), placed);
  await expect.poll(async () => (books = await readBooks(clients(), placed)), { timeout: 120_000, interval: 200 }).toMatchObject({ isSettled: true, differences: [] });
  return books;
}

describe("orders", () => {
  it("are placed once for each key: every repetition, at any instance, gets the same response", async () => {
    const instances = [await start("Ada"), await start("Grace")];
    const replies = await Promise.all([0, 1, 0, 1, 0].map((n) => post(instances[n]!, "key-1", order)));
    expect(new Set(replies.map(({ body }) => body.id)).size).toBe(1);
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 201]);
    const { id } = replies[0]!.body;
    expect(await settledBooks(new Map([[id, order]]))).toMatchObject({ orders: 1, paid: 1, receipts: 1 });
    expect(await (await fetch(`${instances[1]!.url}/orders/eu/${id}`)).json()).toEqual({ id, region: "eu", customer: "ann", amount: 1_250, state: "paid" });
  });

  it("are rejected if the key belongs to another order, or something is wrong with the request", async () => {
    const service = await start("Ada", ["api"]);
    expect((await post(service, "key-1", order)).status).toBe(201);
    expect((await post(service, "key-1", { ...order, amount: 99_900 })).status).toBe(422);
    const wrong = [undefined, "[]", "{", "null", { ...order, region: "mars" }, { ...order, amount: 1.5 }, { ...order, amount: -1 }, { ...order, customer: "a/b" }, { ...order, card: "x".repeat(20_000) }];
    for (const body of wrong) expect([(await post(service, "key-2", body ?? "")).status, body]).toEqual([400, body]);
    expect((await post(service, undefined, order)).status).toBe(400);
    expect((await post(service, "key/2", order)).status).toBe(400);
    expect((await fetch(`${service.url}/orders/eu/unknown`)).status).toBe(404);
    expect((await fetch(`${service.url}/orders/mars/unknown`)).status).toBe(404);
    expect(await readBooks(clients(), new Map())).toMatchObject({ orders: 1 });
  });

  it("are stored, paid and receipted once although responses of the storage are lost", async () => {
    const instances = [await start("Ada"), await start("Grace")];
    proxies.table.setRules([dropResponse({ when: isBatch, times: 12, probability: 0.5 })]);
    proxies.queue.setRules([dropResponse({ when: isWrite, times: 3 })]);
    const placed = new Map<string, OrderRequest>();
    for (let n = 0; n < 20; n++) {
      const request: OrderRequest = { ...order, region: n % 2 === 0 ? "eu" : "us", amount: 100 + n, card: n % 10 === 9 ? "declined" : "good" };
      let reply = await post(instances[n % 2]!, `key-${n}`, request);
      // As a client does it: with the same key, at the other instance.
      for (let tries = 1; reply.status === 503 && tries < 20; tries++) reply = await post(instances[(n + tries) % 2]!, `key-${n}`, request);
      placed.set(reply.body.id, request);
    }
    expect(proxies.table.faultCount()).toBe(12);
    expect(proxies.queue.faultCount()).toBe(3);
    expect(await settledBooks(placed)).toMatchObject({ orders: 20, paid: 18, declined: 2, receipts: 18, poison: 0 });
  });

  it("whose card cannot be read go to the poison queue, and stay open", async () => {
    const service = await start("Ada");
    const { body } = await post(service, "key-1", { ...order, card: "unreadable" });
    expect(await settledBooks(new Map([[body.id, order]]))).toMatchObject({ orders: 1, open: 1, poison: 1, receipts: 0 });
  });
});

describe("an instance", () => {
  it("that stops finishes the requests that have arrived, and leaves what it has not sent to the others", async () => {
    const api = await start("Ada", ["api"]);
    // Nothing can be sent while it runs.
    proxies.queue.setRules([respondWith(403, { when: isWrite })]);
    const replies = Promise.all(["a", "b", "c"].map((key) => post(api, key, order)));
    await expect.poll(async () => (await readBooks(clients(), new Map(), 3)).orders).toBe(3);
    await services.pop()!.stop();
    const placed = new Map((await replies).map(({ status, body }) => [status === 201 ? body.id : `not placed: ${status}`, order]));
    await expect(fetch(`${api.url}/health`)).rejects.toThrow();
    proxies.queue.setRules([]);
    await start("Grace", ["payments"]);
    expect(await settledBooks(placed)).toMatchObject({ orders: 3, paid: 3, receipts: 3 });
  });

  it("is not ready while its table cannot be used, and ready again afterwards", async () => {
    const [api, worker] = [await start("Ada", ["api"]), await start("Grace", ["payments"])];
    const readiness = async (): Promise<number> => (await fetch(`${worker.url}/ready`)).status;
    expect(await readiness()).toBe(200);
    await post(api, "key-1", order);
    await settledBooks(new Map([[(await post(api, "key-1", order)).body.id, order]]));
    // Only the worker: it is the one that reads the orders.
    proxies.table.setRules([respondWith(403)]);
    await clients().payments.sendMessage(JSON.stringify({ id: "none", region: "eu", amount: 1, card: "good" }));
    await expect.poll(readiness).toBe(503);
    expect((await fetch(`${worker.url}/health`)).status).toBe(200);
    proxies.table.setRules([]);
    await expect.poll(readiness).toBe(200);
  });

  it("shows metrics of the library", async () => {
    const service = await start("Ada");
    const { body } = await post(service, "key-1", order);
    await settledBooks(new Map([[body.id, order]]));
    const text = await (await fetch(`${service.url}/metrics`)).text();
    expect(text).toMatch(/azure_storage_concurrency_update_duration_count\{.*azsc_call="Once.runTransaction".*\} \d/);
    expect(text).toMatch(new RegExp(`azure_storage_concurrency_queue_messages_total\\{.*${prefix}-payments.*azsc_outcome="completed".*\\} 1`));
  });

  it("closes the books once for each due time, whichever instance does it", async () => {
    await Promise.all(["Ada", "Grace", "Edsger"].map((name) => start(name, ["jobs"], 500)));
    await expect.poll(async () => (await listReports(clients().table)).length, { timeout: 60_000 }).toBeGreaterThanOrEqual(4);
    const due = (await listReports(clients().table)).map(({ dueOn }) => Date.parse(String(dueOn)));
    expect(due.filter((time) => time % 500 !== 0)).toEqual([]);
    expect(due).toEqual(due.toSorted((a, b) => b - a));
  });
});

it("the clients of the demo repeat what got no response, and end", async () => {
  const service = await start("Ada");
  const load = startLoad({ urls: () => ["http://127.0.0.1:1", service.url], clients: 4, pauseInMs: 1 });
  // Each order of every other client is sent to the instance that is not there first.
  await expect.poll(() => load.repeated, { timeout: 30_000 }).toBeGreaterThanOrEqual(5);
  await load.stop();
  expect(load.givenUp).toBe(0);
  expect(await settledBooks(load.placed)).toMatchObject({ orders: load.placed.size });
});

describe("settings", () => {
  it("come from the environment, with defaults", () => {
    expect(readSettings({ AZURE_STORAGE_CONNECTION_STRING: "x", HOSTNAME: "pod-1" })).toEqual({ instance: "pod-1", connectionString: "x", prefix: "shop", roles: ["api", "payments", "jobs"], port: 0, closeEveryInMs: undefined });
    expect(readSettings({ AZURE_STORAGE_CONNECTION_STRING: "x", SHOP_ROLES: "jobs, api", PORT: "8080" })).toMatchObject({ roles: ["api", "jobs"], port: 8_080 });
  });

  it("that are missing or wrong keep the instance from starting", () => {
    expect(() => readSettings({})).toThrow("AZURE_STORAGE_CONNECTION_STRING");
    expect(() => readSettings({ AZURE_STORAGE_CONNECTION_STRING: "x", SHOP_ROLES: "api,web" })).toThrow('"web" is none of api, payments, jobs');
    expect(() => readSettings({ AZURE_STORAGE_CONNECTION_STRING: "x", PORT: "80a" })).toThrow("PORT");
  });
});

it("the demo runs three instances, kills one, and its books agree", async () => {
  const demo = spawn(process.execPath, ["--import", "tsx", fileURLToPath(new URL("./demo.ts", import.meta.url)), "--seconds", "22", "--clients", "6"], {
    env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: "" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  demo.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  try {
    await expect.poll(() => output, { timeout: 120_000 }).toMatch(/The dashboard: \S+\n/);
    const [, dashboard = ""] = /The dashboard: (\S+)/.exec(output) ?? [];
    expect(await (await fetch(dashboard)).text()).toContain("<html");
    const [code] = (await once(demo, "exit")) as [number | null];
    expect(output).toContain("was killed, and is started again");
    expect(output).toContain("The books agree");
    expect(code).toBe(0);
  } finally {
    demo.kill("SIGKILL");
  }
});
