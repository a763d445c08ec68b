import type { StoredBlob } from "../../fakes/fake-block-blob.js";
import type { StoredRow } from "../../fakes/fake-table.js";
import type { Call } from "./calls.js";
import type { FakeClients, Services } from "./fakes.js";
import type { UnreliableService } from "./unreliable-service.js";

/** Compares what the callers were told with all that was ever stored. Returns the contradictions. */
export function examine(calls: readonly Call[], { blobs, tables }: Services, clients: FakeClients): string[] {
  const histories = new Map<string, readonly string[][]>();
  const historyOf = (key: string): readonly string[][] => {
    const known = histories.get(key);
    if (known) return known;
    const history = [...blobs.versions, ...tables.versions].filter((version) => version.key === key).map(({ value }) => tokensOf(value));
    histories.set(key, history);
    return history;
  };
  const rowKey = (row: string): string => JSON.stringify(["rows", "p", row]);
  const log = clients.log.text.split("\n");
  const problems = calls.flatMap((call) => {
    const document = call.place === "list" ? clients.list.url : clients.mixed.url;
    switch (call.kind) {
      case "optimisticUpdate":
      case "leasedUpdate":
        return expectTimes(call, timesAdded(historyOf(document), call.token));
      case "update entity":
        return expectTimes(call, timesAdded(historyOf(rowKey("a")), call.token));
      case "runTransaction":
        return ["a", "b"].flatMap((row) => expectTimes(call, timesAdded(historyOf(rowKey(row)), call.token)));
      case "appendExactlyOnce":
        return expectTimes(call, log.filter((record) => record === call.token).length);
      case "overwrite":
      case "createIfNotExists":
        // No other call writes this content, so that each version with it is one application.
        return expectTimes(call, historyOf(clients.mixed.url).filter((tokens) => tokens.length === 1 && tokens[0] === call.token).length);
      case "deleteIfUnchanged":
        return call.outcome === "defect" ? expectTimes(call, 0) : [];
    }
  });
  return [...problems, ...examineDeletes(calls, blobs, clients.mixed.url)];
}

export function expectTimes(call: Call, times: number): string[] {
  if (call.outcome === "defect") return [`${describe(call)}: no call rejects with that`];
  const resolved = call.told === "unchanged" ? 0 : 1;
  const right = call.outcome === "resolved" ? times === resolved : call.outcome === "nothing written" ? times === 0 : times <= 1;
  return right ? [] : [`${describe(call)}, but it is stored ${times} times`];
}

/** A version is deleted once, and one caller is told so. */
function examineDeletes(calls: readonly Call[], service: UnreliableService, url: string): string[] {
  const deletes = calls.filter((call) => call.kind === "deleteIfUnchanged" && call.etag !== undefined);
  return [...new Set(deletes.map(({ etag }) => etag))].flatMap((etag) => {
    const deleted = service.versions.filter(({ key, value, before }) => key === url && value === undefined && (before as StoredBlob | undefined)?.etag === etag).length;
    const callers = deletes.filter((call) => call.etag === etag);
    const told = callers.filter(({ outcome }) => outcome === "resolved").length;
    const possible = callers.filter(({ outcome }) => outcome !== "nothing written").length;
    return told <= deleted && deleted <= possible ? [] : [`version ${etag ?? ""} was deleted ${deleted} times: ${callers.map(describe).join("; ")}`];
  });
}

/** How often the token was added: it was not in the version before. */
function timesAdded(history: readonly string[][], token: string): number {
  return history.reduce((times, tokens, i) => {
    const before = history[i - 1]?.filter((other) => other === token).length ?? 0;
    return times + Math.max(0, tokens.filter((other) => other === token).length - before);
  }, 0);
}

function tokensOf(value: unknown): string[] {
  if (value === undefined) return [];
  if ("properties" in (value as object)) return String((value as StoredRow).properties.get("tokens")?.value ?? "").split(" ");
  return (JSON.parse(Buffer.from((value as StoredBlob).content).toString()) as { tokens: string[] }).tokens;
}

export function describe(call: Call): string {
  const where = call.kind === "optimisticUpdate" || call.kind === "leasedUpdate" ? ` of ${call.place}` : "";
  return `${call.kind}${where} ${call.token} (${call.behaviour}, ${call.timeoutInMs} ms) was told after ${Math.round(call.tookInMs ?? -1)} ms: ${call.outcome ?? "nothing"}, ${call.told ?? ""}`;
}
