import { expect, it } from "vitest";
import { tryLimitOf } from "../../src/core/request.js";
import { commitTransaction } from "../../src/transaction/commit-transaction.js";
import { readRow } from "../../src/transaction/row.js";
import { defaultJournalName } from "../../src/target/journal.js";
import { before } from "../fakes/faults.js";
import { fakePartition, set } from "./fakes/partition.js";

/** A function that was detached for being slow may still read rows, with the signal of its batch, while the batch commits. */
it("a read that overlaps with a commit is not counted as a second send of it: a conflict stays a conflict", async () => {
  const { service, table } = fakePartition({ a: 1 });
  const row = await readRow(table, "p", "a", {});
  const { signal } = new AbortController();
  service.next("submitTransaction", before(() => {
    set(table, "a", 10);
    signal.addEventListener("abort", () => undefined); // as a request of the SDK does
  }));
  const entity = { partitionKey: "p", rowKey: "a", n: { type: "Int32", value: "2" } };
  const operation = { rowKey: "a", base: row, changes: true, leavesTombstone: false, wanted: undefined, action: ["update", entity, "Merge", { etag: row.etag! }] as ["update", typeof entity, "Merge", { etag: string }] };
  const context = { abortSignal: signal, tryLimit: tryLimitOf(8_000), tracingOptions: undefined, leaseId: undefined, journalName: defaultJournalName };
  const { outcome } = await commitTransaction(table, "p", [operation], context, { mayRepeat: false, writeId: "w" }, () => 0);
  expect(outcome.kind).toBe("conflict");
});
