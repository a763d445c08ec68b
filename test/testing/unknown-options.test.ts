import { describe, expect, it } from "vitest";
import { cutBody, delay, dropRequest, dropResponse, hang, respondWith, rewriteResponse, startAzurite, startFaultProxy, startFileShareServer } from "../../src/testing.js";

/** Without the check, a misspelt `times` would fire for every request, and a test would prove something else. */
const misspelt = { tiems: 1 } as never;

describe("an unknown option of the test servers is a TypeError", () => {
  it.each<[string, () => unknown]>([
    ["dropResponse", () => dropResponse(misspelt)],
    ["dropRequest", () => dropRequest(misspelt)],
    ["cutBody", () => cutBody(1, misspelt)],
    ["respondWith", () => respondWith(503, misspelt)],
    ["delay", () => delay(1, misspelt)],
    ["hang", () => hang(misspelt)],
    ["rewriteResponse", () => rewriteResponse((response) => response, misspelt)],
  ])("of %s", (name, make) => {
    expect(make).toThrow(new RegExp(`^${name}: unknown option "tiems"`));
  });

  it.each<[string, () => Promise<unknown>]>([
    ["startAzurite", () => startAzurite(misspelt)],
    ["startFaultProxy", () => startFaultProxy("http://127.0.0.1:1", [], misspelt)],
    ["startFileShareServer", () => startFileShareServer(misspelt)],
  ])("of %s, which rejects before it starts anything", async (name, start) => {
    await expect(start()).rejects.toThrow(new RegExp(`^${name}: unknown option "tiems"`));
  });
});
