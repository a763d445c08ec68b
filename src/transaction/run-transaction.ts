import type { ConflictRetryOptions, WriteOutcomeOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { rejectNestedUpdate, withCurrentHolds } from "../core/hold-context.js";
import { describeSpan, withAttempts } from "../core/telemetry.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { EdmType } from "../target/edm.js";
import { partitionUrl } from "../target/stored-entity.js";
import { checkKey, checkTypes } from "../target/table-entity.js";
import { requireClient } from "../target/target.js";
import { checkUpdateOptions } from "../update/options.js";
import { parseOperationId } from "./commit-transaction.js";
import { TransactionCall } from "./transaction-batch.js";
import { enqueueTransaction } from "./transaction-queue.js";
import type { Transaction } from "./transaction.js";

/** Options of {@link runTransaction}. */
export interface RunTransactionOptions extends ConflictRetryOptions, WriteOutcomeOptions {
  /**
   * Identifies this operation: 1 to 64 letters, digits, `-` and `_`, or the id of a {@link CommitUnknownError} of `runTransaction`. A
   * repetition with the same id, by any process, is recognised under up to 31 later commits with ids in the partition. It is not
   * applied again, and resolves with `undefined`.
   * @defaultValue none: with one, the transaction reads and writes one more row, which is the same for all such transactions of the
   * partition
   */
  operationId?: string | undefined;
  /**
   * The Edm types of properties for which JavaScript has no type: `{ price: "Double" }`.
   * @defaultValue none: an existing property keeps its type, a new one gets it from its value
   */
  types?: Readonly<Record<string, EdmType>> | undefined;
  /**
   * Also detect phantoms: entities that other clients add to a queried range, or change so that they match. All writers of
   * the partition have to use this option.
   * @defaultValue false: it costs a row in each partition, one more operation in each transaction, and one more request in each
   * transaction that queries; and every write conflicts with every query
   */
  detectPhantoms?: boolean | undefined;
  /**
   * Whether concurrent transactions of the same partition in this process, under the same credentials, share reads and writes.
   * @defaultValue true: a fraction of the requests, and no conflicts within a process
   */
  coalesce?: boolean | undefined;
}

const optionNames: OptionNames<RunTransactionOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  maxAttempts: 1,
  retryDelayInMs: 1,
  maxRetryDelayInMs: 1,
  operationId: 1,
  onUnknown: 1,
  types: 1,
  detectPhantoms: 1,
  coalesce: 1,
};

/**
 * Reads and writes entities of one partition in isolation from other clients: the commit also rewrites every row that was only
 * read, which validates it and changes its ETag, and if anything has changed, the function runs again. If the call
 * resolves, it was applied exactly once, even if responses are lost. Returns what the function returned.
 *
 * Rows that are read with `validate: false` are left alone. Costs one request for each row that is read, and one to commit; `getMany` reads 14 rows with
 * one. A delete costs one more, after the commit.
 *
 * @example
 * ```ts
 * await runTransaction<Account>(table, "bank", async (tx) => {
 *   const [from, to] = await tx.getMany(["alice", "bob"]);
 *   if (!from || !to || from.balance < 10) throw new Error("not possible");
 *   tx.update({ rowKey: "alice", balance: from.balance - 10 });
 *   tx.update({ rowKey: "bob", balance: to.balance + 10 });
 * });
 * ```
 * @throws {@link ConflictError} if other writers kept changing what was read: nothing was written.
 * @throws {@link TargetNotFoundError} if an entity to be changed or deleted does not exist: nothing was written.
 * @throws {@link AlreadyExistsError} if an entity to be created exists: nothing was written.
 * @throws {@link LimitError} if it exceeds a limit of the service: nothing was written.
 * @throws {@link OperationTimeoutError} if the time was over before the commit was sent: nothing was written.
 * @throws {@link CommitUnknownError} if the commit was sent and its outcome cannot be determined.
 */
export function runTransaction<T extends object = Record<string, unknown>, R = void>(
  table: TableLike,
  partitionKey: string,
  fn: (tx: Transaction<T>) => Promise<R> | R,
  options: RunTransactionOptions = {},
): Promise<R> {
  return withAttempts("runTransaction", options, async (trace, span) => {
    checkOptions("runTransaction", options, optionNames);
    requireClient("runTransaction", table, "a TableClient");
    if (typeof fn !== "function") throw new TypeError("runTransaction: fn must be a function.");
    checkKey("partitionKey", partitionKey);
    describeSpan(span, { targetKind: "tablePartition", url: partitionUrl(table, partitionKey) });
    const url = partitionUrl(table, partitionKey);
    rejectNestedUpdate("runTransaction", url);
    const update = { call: "runTransaction", url, isSettled: () => call.isSettled() };
    const call: TransactionCall = new TransactionCall(withCurrentHolds(fn as (tx: Transaction) => unknown, update), {
      ...checkUpdateOptions(options),
      types: checkTypes(options.types ?? {}),
      operationId: options.operationId,
      operation: options.operationId === undefined ? undefined : parseOperationId(options.operationId),
      options: { abortSignal: options.abortSignal },
      trace,
      url,
    });
    const { coalesce = true, detectPhantoms = false } = options;
    enqueueTransaction({ table, credentialScope: credentialScopeOf(table), partitionKey, coalesce, detectPhantoms }, call);
    const { value, outcome } = await call.promise;
    describeSpan(span, { outcome });
    return value as R;
  });
}
