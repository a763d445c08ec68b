import type { AdapterRequest } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { createError, CommitUnknownError } from "../../errors.js";
import { tableUrl } from "../../target/stored-entity.js";
import { runWithReceipt } from "../../transaction/run-transaction.js";
import type { ReceiptTransactionOptions } from "../../transaction/run-transaction.js";
import type { TransactionRun } from "../../transaction/transaction-run.js";
import { duplicateOf } from "./commit-once.js";
import type { InboxCommitResult, KeyRecord } from "./commit-once.js";
import { entityOf, readRecord } from "./record.js";
import type { StoredMessage } from "./stored-outgoing.js";

/** What a function of a transaction returned, and the messages that it wants to be sent. */
export interface TransactedValue {
  readonly value: unknown;
  readonly outgoing: readonly StoredMessage[];
}

/** One call of `context.transaction`. */
export interface InboxTransaction extends KeyRecord {
  readonly fn: (tx: TransactionRun) => Promise<TransactedValue>;
  /** Whether an earlier delivery may have committed. */
  readonly isRedelivery: boolean;
}

const timeoutInMs = 30_000;

/**
 * Runs a function in a transaction of the partition, whose receipt is the record of the key: it is created with the writes of the
 * function, never updated, so of all transactions for one key only one can ever be committed. Conflicts run the function again.
 *
 * | transaction  | record afterwards | outcome                                                                         |
 * |--------------|-------------------|---------------------------------------------------------------------------------|
 * | committed    |                   | committed                                                                       |
 * | found it     | own               | committed: the response to an earlier run of this call was lost; its value      |
 * | found it     | another's         | duplicate; for another payload: an `IdempotencyMismatchError`                   |
 * | found it     | none              | unknown: it was purged in between; the next delivery of the message decides     |
 * | rejected     |                   | the caller's error                                                              |
 */
export async function transactOnce(
  table: TableLike,
  transaction: InboxTransaction,
  options: ReceiptTransactionOptions,
  { abortSignal, tracingOptions }: AdapterRequest,
): Promise<InboxCommitResult & { readonly value: unknown }> {
  const { partitionKey, rowKey, record, fn, isRedelivery } = transaction;
  const runs: TransactedValue[] = [];
  const ownerOf = (run: number): string => `${record.owner}/${run}`;
  const run = async (tx: TransactionRun): Promise<TransactedValue> => {
    const result = await fn(tx);
    const owner = ownerOf(runs.push(result) - 1);
    tx.insertReceipt(entityOf(partitionKey, rowKey, { ...record, owner, state: "done", outgoing: result.outgoing }));
    return result;
  };
  const { value, outcome } = await runWithReceipt("transaction", table, partitionKey, run, { rowKey, isExpected: isRedelivery }, { ...options, abortSignal, tracingOptions });
  if (outcome === "committed") return { result: "committed", ...(value as TransactedValue) };
  const found = await readRecord(table, partitionKey, rowKey, timeoutInMs, abortSignal);
  if (!found) {
    const url = tableUrl(table);
    const message = `The outcome of a transaction in ${url} is unknown: its record was there, and is gone. Throw from the handler: the next delivery of the message decides.`;
    throw createError(CommitUnknownError, message, { url, attempts: 1, operationId: record.owner });
  }
  const own = runs.findIndex((_, index) => found.owner === ownerOf(index));
  const committed = runs[own];
  return committed ? { result: "committed", ...committed } : { ...duplicateOf(table, transaction, found), value: undefined };
}
