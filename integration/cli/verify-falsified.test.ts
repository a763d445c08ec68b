import { afterAll, beforeAll, expect, it } from "vitest";

import { allChecks } from "../../src/cli/verify/all-checks.js";
import type { Check } from "../../src/cli/verify/check.js";
import { type CheckResult, runChecks } from "../../src/cli/verify/run-checks.js";
import { services } from "../../src/cli/verify/service.js";
import type { Workspace } from "../../src/cli/verify/workspace.js";
import { type Azurite, type FaultProxy, type FaultResponse, type FileShareServer, replaceEndpoints, rewriteResponse, startAzurite, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { workspaceHere } from "../conformance/suite.js";

/**
 * A service that responds wrongly to one request: a success as a failed condition; a rejection as a success, or with another code. Whichever
 * response of a check that is, its result must differ. Without the checks of permissions: there the helpers run, which recover from most wrong responses.
 */
let azurite: Azurite;
let files: FileShareServer;
let proxies: readonly FaultProxy[];
let workspace: Workspace;

/** The response that is falsified, by its number among those of the check, and how many there were. */
let falsified: number;
let responses: number;
let falsify: typeof contrary;

beforeAll(async () => {
  [azurite, files] = await Promise.all([startAzurite(), startFileShareServer()]);
  const rule = rewriteResponse((response, { method, path }) => (responses++ === falsified ? falsify(response, method, /\(|\$batch/.test(path)) : response));
  proxies = await Promise.all([azurite.blobUrl, azurite.tableUrl, azurite.queueUrl, files.url].map((url) => startFaultProxy(url, [rule])));
  const [blobUrl, tableUrl, queueUrl, fileUrl] = proxies.map(({ url }) => url) as [string, string, string, string];
  workspace = workspaceHere(replaceEndpoints(azurite.connectionString, { blobUrl, tableUrl, queueUrl, fileUrl }));
  await workspace.open(services);
});
afterAll(async () => {
  falsified = -1;
  expect(await workspace.removeAll()).toEqual([]);
  await Promise.all([...proxies.map((proxy) => proxy.stop()), azurite.stop(), files.stop()]);
});

function without(headers: FaultResponse["headers"], ...names: readonly string[]): FaultResponse["headers"] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}

function contrary({ status, headers, body }: FaultResponse, method: string, isTable: boolean): FaultResponse {
  const others = without(headers, "content-length", "content-type", "x-ms-error-code");
  if (status >= 300) return { status: method === "GET" || method === "HEAD" ? 200 : isTable ? 204 : method === "DELETE" ? 202 : 201, headers: { ...others, etag: '"0x8DFFFFFFFFFFFFF"' }, body: Buffer.alloc(0) };
  const code = "ConditionNotMet";
  const [type, text] = isTable
    ? ["application/json", JSON.stringify({ "odata.error": { code, message: { lang: "en-US", value: "falsified" } } })]
    : ["application/xml", `<?xml version="1.0" encoding="utf-8"?><Error><Code>${code}</Code><Message>falsified</Message></Error>`];
  return { status: 412, headers: { ...others, "content-type": type, "x-ms-error-code": code }, body: method === "HEAD" ? body : Buffer.from(text) };
}

/** Set by the responses that have no code to falsify. */
let isSame = false;

function otherCode(response: FaultResponse): FaultResponse {
  const headers = without(response.headers, "content-length");
  const text = response.body.toString();
  const changed = text.replace(/<Code>\w+</, "<Code>AnotherCode<").replace(/"code":"\w+"/, '"code":"AnotherCode"');
  isSame = response.status < 400 || (headers["x-ms-error-code"] === undefined && changed === text);
  if (isSame) return response;
  return { status: response.status, headers: { ...headers, "x-ms-error-code": "AnotherCode" }, body: Buffer.from(changed) };
}

async function resultOf(check: Check, wrong: number): Promise<CheckResult> {
  falsified = wrong;
  isSame = false;
  responses = 0;
  const [result] = await runChecks([check], workspace, { emulator: true });
  return result!;
}

it("notices each wrong response to every tenth of its checks", { timeout: 400_000 }, async () => {
  const sample = allChecks.filter(({ slow, group }) => slow !== true && group !== "Permissions").filter(({ group }, index) => index % 10 === 0 || group === "Contenders");
  expect(sample.length).toBeGreaterThan(50);
  const unnoticed: string[] = [];
  for (const check of sample) {
    const { status, found } = await resultOf(check, -1);
    expect(["ok", "known"], `${check.name}: ${found}`).toContain(status);
    const all = responses;
    for (falsify of [contrary, otherCode]) {
      for (let wrong = 0; wrong < all; wrong++) {
        const result = await resultOf(check, wrong);
        if (!isSame && result.status !== "different" && result.status !== "failed") unnoticed.push(`${check.group}: ${check.name}: ${falsify.name} of response ${wrong + 1} of ${all}`);
      }
    }
  }
  expect(unnoticed).toEqual([]);
});
