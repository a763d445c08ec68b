import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";

import { type CopyingProxy, type Delivery, startCopyingProxy } from "./copying-proxy.js";

const received: string[] = [];
const server = createServer((request, response) => {
  received.push(`${request.method ?? ""} ${request.url ?? ""}`);
  response.end(String(received.length));
});
let proxy: CopyingProxy;
let delivery: Delivery;

beforeEach(async () => {
  received.length = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy = await startCopyingProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => delivery);
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await new Promise((resolve) => server.close(resolve));
});

it("a write that is delivered twice gets the response to the second copy; a read is delivered once", async () => {
  delivery = "twice";
  expect(await (await fetch(`${proxy.url}/a`, { method: "PUT", body: "x" })).text()).toBe("2");
  expect(await (await fetch(`${proxy.url}/a`)).text()).toBe("3");
  expect(received).toEqual(["PUT /a", "PUT /a", "GET /a"]);
  expect([proxy.requests, proxy.copies, proxy.late]).toEqual([2, 1, 0]);
});

it("a late write is carried out although its sender has lost the connection", async () => {
  delivery = { lateInMs: 20 };
  await expect(fetch(`${proxy.url}/b`, { method: "PUT", body: "x" })).rejects.toThrow();
  await expect.poll(() => proxy.late).toBe(1);
  expect(received).toEqual(["PUT /b"]);
});
