import { expect, it } from "vitest";

import type { TableLike } from "../../src/index.js";
import { getOwnRow, ownRowPages } from "../../src/target/own-rows.js";

const row = (number: number): object => ({
  "odata.etag": `W/"${number}"`, PartitionKey: "p", RowKey: `r${number}`, Timestamp: "2030-01-01T00:00:00Z",
  // Properties of the row, which the service accepts.
  partitionKey: "victims", rowKey: "victim", etag: "*", timestamp: "2001-01-01T00:00:00Z", state: "done",
});

/** What the SDK makes of a response: the last member of a name counts. */
function asSdk(body: object): object {
  const names = new Map([["odata.etag", "etag"], ["PartitionKey", "partitionKey"], ["RowKey", "rowKey"], ["Timestamp", "timestamp"]]);
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [names.get(name) ?? name, value as unknown]));
}

const table = {
  getEntity: (_partitionKey, _rowKey, options) => {
    options?.onResponse?.({ bodyAsText: JSON.stringify(row(1)) });
    return Promise.resolve(asSdk(row(1)));
  },
  listEntities: (options) => ({
    byPage: async function* () {
      for (const number of [1, 2]) {
        options?.onResponse?.({ bodyAsText: JSON.stringify({ value: [row(number)] }) });
        yield await Promise.resolve([asSdk(row(number))]);
      }
    },
  }),
} as Partial<TableLike> as TableLike;

const expected = (number: number): object => ({ partitionKey: "p", rowKey: `r${number}`, etag: `W/"${number}"`, timestamp: "2030-01-01T00:00:00Z", state: "done" });

it("keys, ETag and time of a row are those of the service, whatever its properties say", async () => {
  expect(await getOwnRow(table, "p", "r1")).toMatchObject(expected(1));
});

it("also on each page of a list, and the caller sees each response", async () => {
  const pages: (readonly object[])[] = [];
  let responses = 0;
  for await (const page of ownRowPages(table, { queryOptions: { filter: "" }, onResponse: () => responses++ })) pages.push(page);
  expect(pages).toMatchObject([[expected(1)], [expected(2)]]);
  expect(responses).toBe(2);
});
