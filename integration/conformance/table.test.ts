import { AzureNamedKeyCredential, generateTableSas, type TableClient } from "@azure/data-tables";
import { beforeAll, describe, expect, it } from "vitest";

import { emulatorAccount } from "../../src/testing.js";
import { freshName, freshTable } from "../support/clients.js";
import { type Exchange, refused, seen } from "./exchange.js";
import { type Key, type TableRow, tableRows } from "./table.rows.js";

const stale = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"";

let table: TableClient;
beforeAll(async () => {
  table = await freshTable();
});

async function subject({ given }: TableRow): Promise<Key & { etag: string }> {
  const key = { partitionKey: freshName(), rowKey: "row" };
  if (given === "missing") return { ...key, etag: stale };
  const { etag = "" } = await table.createEntity({ ...key, a: 1, b: 1 });
  return { ...key, etag };
}

async function call(row: TableRow, key: Key, etag?: string): Promise<Exchange> {
  let response: Parameters<typeof seen>[0] | undefined;
  const onResponse = (raw: unknown): void => { response = raw as typeof response; };
  try {
    await row.call(table, { partitionKey: key.partitionKey, rowKey: key.rowKey }, etag === undefined ? { onResponse } : { etag, onResponse });
    return seen(response!);
  } catch (error) {
    return refused(error);
  }
}

async function left({ partitionKey, rowKey }: Key): Promise<unknown> {
  const entity = await table.getEntity(partitionKey, rowKey).catch((error: unknown) => {
    if ((error as { statusCode?: number }).statusCode === 404) return undefined;
    throw error;
  });
  if (entity === undefined) return undefined;
  return Object.fromEntries(Object.entries(entity).filter(([name]) => name === "a" || name === "b"));
}

/** The request without If-Match, which the SDK cannot be made to send. */
async function withoutIfMatch(method: string, { partitionKey, rowKey }: Key): Promise<string> {
  const sas = generateTableSas(table.tableName, new AzureNamedKeyCredential(emulatorAccount.name, emulatorAccount.key), {
    permissions: { query: true, add: true, update: true, delete: true },
    expiresOn: new Date(Date.now() + 600_000),
  });
  const url = `${table.url}/${table.tableName}(PartitionKey='${partitionKey}',RowKey='${rowKey}')?${sas}`;
  const headers = { "content-type": "application/json", accept: "application/json;odata=nometadata", "x-ms-version": "2019-02-02" };
  const body = method === "DELETE" ? null : JSON.stringify({ a: 2 });
  const answer = await fetch(url, { method, headers, body });
  return `${answer.status} ${answer.headers.get("x-ms-error-code") ?? ""}`.trim();
}

describe.each(tableRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
  it(row.returnsETag ? "returns an ETag" : "returns no ETag", async () => {
    const key = await subject(row);
    const { answer, etag } = await call(row, key);
    expect(answer).toMatch(/^2\d\d$/);
    if (row.returnsETag) expect(etag).toMatch(/^W\/".+"$/);
    else expect(etag).toBeUndefined();
    expect(await left(key)).toEqual(row.leaves);
  });

  if (row.ifMatch === "none") {
    it("checks nothing: the ETag is not sent, and a stale one goes through", async () => {
      const key = await subject(row);
      const { answer, sent } = await call(row, key, stale);
      expect(answer).toMatch(/^2\d\d$/);
      expect(sent("if-match")).toBeUndefined();
      expect(await left(key)).toEqual(row.leaves);
    });
    return;
  }

  it("goes through with the current ETag", async () => {
    const key = await subject(row);
    const { answer, sent } = await call(row, key, key.etag);
    expect(answer).toBe("204");
    expect(sent("if-match")).toBe(key.etag);
    expect(await left(key)).toEqual(row.leaves);
  });

  it("is refused with the ETag of before another's change", async () => {
    const key = await subject(row);
    await table.updateEntity({ partitionKey: key.partitionKey, rowKey: key.rowKey, a: 9, b: 9 }, "Replace");
    expect((await call(row, key, key.etag)).answer).toBe("412 UpdateConditionNotSatisfied");
    expect(await left(key)).toEqual({ a: 9, b: 9 });
  });

  it("checks nothing with *, which is what the SDK sends if it is given no ETag", async () => {
    const key = await subject(row);
    expect((await call(row, key, "*")).answer).toBe("204");
    const { answer, sent } = await call(row, await subject(row));
    expect([answer, sent("if-match")]).toEqual(["204", row.sentByDefault]);
  });

  it("is refused for an entity that is not there, even with *", async () => {
    const key = { partitionKey: freshName(), rowKey: "row" };
    expect((await call(row, key, "*")).answer).toBe("404 ResourceNotFound");
    expect((await call(row, key, stale)).answer).toBe("404 ResourceNotFound");
  });

  it(`answers ${row.withoutHeader ?? ""} to a request without the header`, async () => {
    expect(await withoutIfMatch(row.method ?? "", await subject(row))).toBe(row.withoutHeader);
  });
});

it("each entity of a listing has its ETag", async () => {
  const key = await subject(tableRows[0]!);
  for await (const { etag } of table.listEntities({ queryOptions: { filter: `PartitionKey eq '${key.partitionKey}'` } })) expect(etag).toBe(key.etag);
  expect.assertions(1);
});

it("an insert of what is there is refused", async () => {
  const key = await subject(tableRows[0]!);
  const insert = tableRows.find(({ operation }) => operation === "Insert Entity")!;
  expect((await call(insert, key)).answer).toBe("409 EntityAlreadyExists");
});
