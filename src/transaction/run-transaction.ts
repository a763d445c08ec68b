import type { ConflictRetryOptions, WriteOutcomeOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { isAborted } from "../core/deadline.js";
import { rejectNestedUpdate, withCurrentHolds } from "../core/hold-context.js";
import { withUpdate } from "../core/measure.js";
import { read } from "../core/request.js";
import { describeSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import type { EdmType } from "../target/edm.js";
import { partitionUrl } from "../target/stored-entity.js";
import { checkKey, checkTypes } from "../target/table-entity.js";
import { requireClient } from "../target/target.js";
import { checkUpdateOptions } from "../update/options.js";
import { parseOperationId } from "./commit-transaction.js";
import { readRow } from "./row.js";
import type { Row } from "./row.js";
import { TransactionCall } from "./transaction-call.js";
import type { TransactionResult } from "./transaction-call.js";
import { enqueueTransaction } from "./transaction-queue.js";
import type { Receipt } from "./repetition.js";
import type { TransactionRun } from "./transaction-run.js";
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
   * Whether concurrent transactions of the same partition in this process, under the same credentials, share reads and writes. The
   * functions of the callers run in the async context of their own calls; a shared request travels in that of one of its callers. Pass
   * `false` if a policy of the client depends on the context: on the user of the call, for example.
   * @defaultValue true: a fraction of the requests, and no conflicts within a process
   */
  coalesce?: boolean | undefined;
}

/** Options of {@link runWithReceipt}. Without an operation id: the receipt takes its place. */
export type ReceiptTransactionOptions = Omit<RunTransactionOptions, "operationId">;

const receiptOptionNames: OptionNames<ReceiptTransactionOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  maxAttempts: 1,
  retryDelayInMs: 1,
  maxRetryDelayInMs: 1,
  onUnknown: 1,
  types: 1,
  detectPhantoms: 1,
  coalesce: 1,
};
const optionNames: OptionNames<RunTransactionOptions> = { ...receiptOptionNames, operationId: 1 };

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
  return withUpdate("runTransaction", options, async (trace, span) => {
    checkOptions("runTransaction", options, optionNames);
    const { value, outcome } = await execute("runTransaction", { table, partitionKey, fn, trace, span }, options);
    describeSpan(span, { outcome });
    return value as R;
  });
}

/**
 * As {@link runTransaction}, with a row that the function creates by {@link TransactionRun.insertReceipt}. The transaction is committed
 * once as long as the row exists, whichever process runs it, and however often. `"unchanged"`: the row exists, and the function did not
 * run, or what it did was dropped. So a commit of unknown outcome is always repeated: the repetition finds the receipt of the first.
 * @param call - The name of the public call, for messages and spans.
 * @param receipt - Undefined: the function is tried out, and throws in the end.
 */
export function runWithReceipt(
  call: string,
  table: TableLike,
  partitionKey: string,
  fn: (tx: TransactionRun) => unknown,
  receipt: Receipt | undefined,
  options: ReceiptTransactionOptions,
): Promise<TransactionResult> {
  return withUpdate(call, options, async (trace, span) => {
    checkOptions(call, options, receiptOptionNames);
    // A queue of transactions calls it with one of its runs.
    const run = fn as (tx: Transaction) => unknown;
    const execution = execute(call, { table, partitionKey, fn: run, trace, span, receipt }, { ...options, onUnknown: "retry" });
    const result = await execution.catch(async (error: unknown): Promise<TransactionResult> => {
      if (receipt && (await wasApplied(table, partitionKey, receipt, error, options))) return { value: undefined, outcome: "unchanged" };
      throw error;
    });
    describeSpan(span, { outcome: result.outcome });
    return result;
  });
}

/**
 * Whether the transaction was applied before. A function that sees what its own first run has written may throw: an account is empty, an
 * entity exists. Its error counts only if there is no receipt.
 */
async function wasApplied(table: TableLike, partitionKey: string, { rowKey }: Receipt, error: unknown, { abortSignal, tracingOptions }: ReceiptTransactionOptions): Promise<boolean> {
  if (isAborted(abortSignal) || isConcurrencyError(error, "OPERATION_TIMEOUT") || isConcurrencyError(error, "COMMIT_UNKNOWN")) return false;
  try {
    const request = (signal: AbortSignal): Promise<Row> => readRow(table, partitionKey, rowKey, { abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    return (await read(request, { abortSignal, timeoutInMs: receiptTimeoutInMs })).etag !== undefined;
  } catch {
    return false;
  }
}

const receiptTimeoutInMs = 10_000;

/** One call: its function, and where it runs. */
interface Execution {
  readonly table: TableLike;
  readonly partitionKey: string;
  readonly fn: (tx: Transaction) => unknown;
  readonly trace: Attempts;
  readonly span: CallSpan;
  readonly receipt?: Receipt | undefined;
}

function execute(name: string, { table, partitionKey, fn, trace, span, receipt }: Execution, options: RunTransactionOptions): Promise<TransactionResult> {
  requireClient(name, table, "a TableClient");
  if (typeof fn !== "function") throw new TypeError(`${name}: fn must be a function.`);
  checkKey("partitionKey", partitionKey);
  const url = partitionUrl(table, partitionKey);
  describeSpan(span, { targetKind: (trace.targetKind = "tablePartition"), url });
  rejectNestedUpdate(name, url);
  const update = { call: name, url, isSettled: () => call.isSettled() };
  const call: TransactionCall = new TransactionCall(withCurrentHolds(fn, update), {
    ...checkUpdateOptions(options),
    types: checkTypes(options.types ?? {}),
    operationId: options.operationId,
    operation: options.operationId === undefined ? undefined : parseOperationId(options.operationId),
    receipt,
    options: { abortSignal: options.abortSignal },
    trace,
    url,
  });
  const { coalesce = true, detectPhantoms = false } = options;
  enqueueTransaction({ table, credentialScope: credentialScopeOf(table), partitionKey, coalesce, detectPhantoms }, call);
  return call.promise;
}
