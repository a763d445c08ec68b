import { displayUrl } from "../internal/url.js";

interface Named {
  readonly url: string;
  readonly tableName: string;
}

/** What messages and errors call a table: its address, without a signature. */
export function tableUrl(table: Named): string {
  return `${displayUrl(table.url)}/${table.tableName}`;
}

/** The same for one entity. */
export function entityUrl(table: Named, partitionKey: string, rowKey: string): string {
  return `${tableUrl(table)}(PartitionKey='${partitionKey}',RowKey='${rowKey}')`;
}

/** The same for a partition. */
export function partitionUrl(table: Named, partitionKey: string): string {
  return `${tableUrl(table)}(PartitionKey='${partitionKey}')`;
}
