import type { TableClient } from "@azure/data-tables";
import { isNotFound } from "../../../core/storage-errors.js";
import type { Check } from "../check.js";
import { outcome } from "../check.js";
import type { Exchange } from "../exchange.js";
import { rejected, seen } from "../exchange.js";
import type { Key, TableRow } from "../rows/table.js";
import { tableRows } from "../rows/table.js";
import { tableSas } from "../sas.js";
import type { Workspace } from "../workspace.js";

const stale = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"";

async function subject({ given }: Pick<TableRow, "given">, table: TableClient, workspace: Workspace): Promise<Key & { readonly etag: string }> {
  const key = { partitionKey: workspace.name(), rowKey: "row" };
  if (given === "missing") return { ...key, etag: stale };
  const { etag = "" } = await table.createEntity({ ...key, a: 1, b: 1 });
  return { ...key, etag };
}

async function exchangeOf(row: TableRow, table: TableClient, { partitionKey, rowKey }: Key, etag?: string): Promise<Exchange> {
  let response: Parameters<typeof seen>[0] | undefined;
  const onResponse = (raw: unknown): void => {
    response = raw as typeof response;
  };
  try {
    await row.call(table, { partitionKey, rowKey }, etag === undefined ? { onResponse } : { etag, onResponse });
    if (!response) throw new Error("the SDK has not reported the response");
    return seen(response);
  } catch (error) {
    return rejected(error);
  }
}

/** What is left of the entity: the values of `a` and `b`, or `nothing`. */
export async function left(table: TableClient, { partitionKey, rowKey }: Key): Promise<string> {
  try {
    return textOf(await table.getEntity<{ a?: number; b?: number }>(partitionKey, rowKey));
  } catch (error) {
    if (isNotFound(error)) return textOf(undefined);
    throw error;
  }
}

function textOf(entity: { readonly a?: number; readonly b?: number } | undefined): string {
  if (!entity) return "leaves nothing";
  const { a, b } = entity;
  return `leaves a=${a ?? "-"}, b=${b ?? "-"}`;
}

type Part = Pick<Check, "name" | "expected" | "requests" | "run">;

function checksOf(row: TableRow): Check[] {
  const created = row.given === "missing" ? 0 : 1;
  const leaves = textOf(row.leaves);
  const parts: Part[] = [
    {
      name: "the response",
      expected: `passes, ${row.returnsETag ? "with" : "without"} an ETag, ${leaves}`,
      requests: created + 2,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = await subject(row, table, workspace);
        const { response, etag } = await exchangeOf(row, table, key);
        return `${outcome(response, undefined)}, ${etag === undefined ? "without" : "with"} an ETag, ${await left(table, key)}`;
      },
    },
    ...(row.ifMatch === "none" ? [notSent(row, created, leaves)] : ifMatchParts(row, leaves)),
  ];
  return parts.map((part) => ({ service: "table", group: "Tables", source: row.source ?? "documented", helper: row.helper, ...part, name: `${row.operation}: ${part.name}` }));
}

function notSent(row: TableRow, created: number, leaves: string): Part {
  return {
    name: "If-Match",
    expected: `not sent, passes, ${leaves}`,
    requests: created + 2,
    run: async (workspace) => {
      const table = await workspace.table();
      const key = await subject(row, table, workspace);
      const { response, sent } = await exchangeOf(row, table, key, stale);
      return `${sent("if-match") === undefined ? "not sent" : "sent"}, ${outcome(response, undefined)}, ${await left(table, key)}`;
    },
  };
}

function ifMatchParts(row: TableRow, leaves: string): Part[] {
  return [
    {
      name: "the current ETag",
      expected: `204, ${leaves}`,
      requests: 3,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = await subject(row, table, workspace);
        const { response, sent } = await exchangeOf(row, table, key, key.etag);
        return `${response}${sent("if-match") === key.etag ? "" : " (not sent)"}, ${await left(table, key)}`;
      },
    },
    {
      name: "the ETag of before another change",
      expected: "412 UpdateConditionNotSatisfied, leaves a=9, b=9",
      requests: 4,
      run: async (workspace) => {
        const table = await workspace.table();
        const { etag, ...key } = await subject(row, table, workspace);
        await table.updateEntity({ ...key, a: 9, b: 9 }, "Replace");
        return `${(await exchangeOf(row, table, key, etag)).response}, ${await left(table, key)}`;
      },
    },
    {
      name: "*, which the SDK sends if it is given no ETag",
      expected: `given *: 204; given none: 204, sends ${row.sentByDefault ?? ""}`,
      requests: 4,
      run: async (workspace) => {
        const table = await workspace.table();
        const given = await exchangeOf(row, table, await subject(row, table, workspace), "*");
        const none = await exchangeOf(row, table, await subject(row, table, workspace));
        return `given *: ${given.response}; given none: ${none.response}, sends ${none.sent("if-match") ?? "nothing"}`;
      },
    },
    {
      name: "no such entity",
      expected: "*: 404 ResourceNotFound; an ETag: 404 ResourceNotFound",
      requests: 2,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = { partitionKey: workspace.name(), rowKey: "row" };
        const [any, one] = [await exchangeOf(row, table, key, "*"), await exchangeOf(row, table, key, stale)];
        return `*: ${any.response}; an ETag: ${one.response}`;
      },
    },
    {
      name: "no such header",
      expected: row.withoutHeader ?? "",
      requests: 2,
      run: async (workspace) => {
        const table = await workspace.table();
        return withoutIfMatch(row.method ?? "PUT", table, await subject(row, table, workspace), workspace);
      },
    },
  ];
}

/** The request without If-Match, which the SDK cannot be made to send. */
async function withoutIfMatch(method: string, table: TableClient, { partitionKey, rowKey }: Key, { account, signal }: Workspace): Promise<string> {
  const sas = await tableSas(account, table.tableName, { query: true, add: true, update: true, delete: true });
  const url = new URL(`${table.url.split("?", 1)[0] ?? ""}/${table.tableName}(PartitionKey='${partitionKey}',RowKey='${rowKey}')?${sas}`);
  const headers = { "content-type": "application/json", accept: "application/json;odata=nometadata", "x-ms-version": "2019-02-02" };
  const body = method === "DELETE" ? null : JSON.stringify({ a: 2 });
  const response = await fetch(url, { method, headers, body, signal });
  await response.body?.cancel();
  return `${response.status} ${response.headers.get("x-ms-error-code") ?? ""}`.trim();
}

const listed: Check = {
  service: "table",
  group: "Tables",
  name: "Query Entities: many: the ETag of each entity",
  source: "documented",
  expected: "that of its last write",
  requests: 2,
  run: async (workspace) => {
    const table = await workspace.table();
    const { partitionKey, etag } = await subject({}, table, workspace);
    const found: unknown[] = [];
    for await (const entity of table.listEntities({ queryOptions: { filter: `PartitionKey eq '${partitionKey}'` } })) found.push(entity.etag);
    return found.length === 1 && found[0] === etag ? "that of its last write" : `${found.length} entities, ${String(found[0])}`;
  },
};

const insertedTwice: Check = {
  service: "table",
  group: "Tables",
  name: "Insert Entity: it exists",
  source: "documented",
  helper: "`createIfNotExists(tableEntity)`, `Transaction.create`",
  expected: "409 EntityAlreadyExists",
  requests: 2,
  run: async (workspace) => {
    const table = await workspace.table();
    const insert = tableRows.find(({ operation }) => operation === "Insert Entity");
    const { response } = await exchangeOf(insert as TableRow, table, await subject({}, table, workspace));
    return response;
  },
};

export const tableChecks: readonly Check[] = [...tableRows.flatMap(checksOf), listed, insertedTwice];
