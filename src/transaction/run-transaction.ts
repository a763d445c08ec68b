import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { describeSpan, withAttempts } from "../core/telemetry.js";
import type { EdmType } from "../target/edm.js";
import { partitionUrl } from "../target/stored-entity.js";
import { checkKey, checkTypes } from "../target/table-entity.js";
import { checkUpdateOptions } from "../update/options.js";
import type { OptimisticUpdateOptions } from "../update/options.js";
import { TransactionCall } from "./transaction-batch.js";
import type { TransactionResult } from "./transaction-batch.js";
import { enqueueTransaction } from "./transaction-queue.js";
import type { Transaction } from "./transaction.js";

/** Options of {@link runTransaction}. */
export interface RunTransactionOptions
  extends CallOptions,
    Pick<
      OptimisticUpdateOptions<never>,
      "maxAttempts" | "timeoutInMs" | "retryDelayInMs" | "maxRetryDelayInMs" | "coalesce" | "onUnknown"
    > {
  /** The Edm types of properties for which JavaScript has no type: `{ price: "Double" }`. */
  types?: Readonly<Record<string, EdmType>> | undefined;
  /**
   * Also detect phantoms: entities that other clients add to a queried range, or change so that they match. All writers of
   * the partition have to use this option. Costs a row in each partition, one more operation in each transaction, and one more
   * request in each transaction that queries; and every write conflicts with every query.
   * @defaultValue false
   */
  detectPhantoms?: boolean | undefined;
}

/**
 * Reads and writes entities of one partition in isolation from other clients: the request that writes also validates what was
 * read, and if anything has changed, the function runs again. Applied exactly once, even if responses are lost.
 *
 * Costs one request for each row that is read, and one to commit; `getMany` reads 14 rows with one. A delete costs one more,
 * after the commit.
 */
export function runTransaction<R>(
  table: TableLike,
  partitionKey: string,
  fn: (tx: Transaction) => Promise<R> | R,
  options: RunTransactionOptions = {},
): Promise<TransactionResult<R>> {
  return withAttempts("runTransaction", options, async (trace, span) => {
    if (typeof fn !== "function") throw new TypeError("fn must be a function");
    checkKey("partitionKey", partitionKey);
    describeSpan(span, { targetKind: "tablePartition", url: partitionUrl(table, partitionKey) });
    const call = new TransactionCall(fn, {
      ...checkUpdateOptions(options),
      types: checkTypes(options.types ?? {}),
      options: { abortSignal: options.abortSignal },
      trace,
      url: partitionUrl(table, partitionKey),
    });
    const { coalesce = true, detectPhantoms = false } = options;
    enqueueTransaction({ table, credentialScope: credentialScopeOf(table), partitionKey, coalesce, detectPhantoms }, call);
    const result = (await call.promise) as TransactionResult<R>;
    describeSpan(span, { outcome: result.outcome });
    return result;
  });
}
