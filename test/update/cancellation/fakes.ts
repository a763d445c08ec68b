import { FakeAppendBlob } from "../../fakes/fake-append-blob.js";
import { FakeTransactionTable } from "../../transaction/fakes/fake-transaction-table.js";
import type { Clients } from "./calls.js";
import { LeasableBlob } from "./leasable-blob.js";
import type { UnreliableService } from "./unreliable-service.js";

/** The services of an account. */
export interface Services {
  readonly blobs: UnreliableService;
  readonly tables: UnreliableService;
}

/** The clients of one process. */
export interface FakeClients extends Clients {
  readonly list: LeasableBlob;
  readonly mixed: LeasableBlob;
  readonly table: FakeTransactionTable;
  readonly log: FakeAppendBlob;
}

export function clientsOf({ blobs, tables }: Services): FakeClients {
  const pipeline = {};
  const url = "https://account.blob.core.windows.net/c/";
  const mixed = new LeasableBlob(blobs, { url: `${url}mixed.json`, pipeline });
  return {
    list: new LeasableBlob(blobs, { url: `${url}list.json`, pipeline }),
    mixed,
    table: new FakeTransactionTable(tables, { tableName: "rows", pipeline }),
    log: new FakeAppendBlob(blobs, { url: `${url}log`, pipeline }),
    currentETag: () => mixed.stored?.etag,
  };
}
