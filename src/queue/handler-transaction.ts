import { isConcurrencyError } from "../errors.js";
import type { TransactionRun } from "../transaction/transaction-run.js";
import type { CommitTransaction } from "./context.js";
import type { TransactedValue } from "./inbox/transact-once.js";
import { checkOutgoing, prepareOutgoing } from "./outgoing.js";
import type { OutgoingQueues, PreparedOutgoing } from "./outgoing.js";

/** The function of `context.transaction`: what it gets, and whose failure it is if it fails. */
export class HandlerTransaction {
  readonly #fn: (tx: CommitTransaction) => unknown;
  readonly #queues: OutgoingQueues;
  /** What the function has thrown of its own, and not because a read failed. */
  readonly #ownErrors = new Set<unknown>();
  #running = 0;
  #reading = 0;

  constructor(fn: (tx: CommitTransaction) => unknown, queues: OutgoingQueues) {
    this.#fn = fn;
    this.#queues = queues;
  }

  /** One run of the function. */
  async run(tx: TransactionRun, keyPrefix: string): Promise<TransactedValue> {
    const messages: PreparedOutgoing[] = [];
    const readErrors = new Set<unknown>();
    let returned = false;
    const send: CommitTransaction["send"] = (message) => {
      if (returned) throw new TypeError("transaction: its function has returned, so nothing can be sent with it any more.");
      messages.push(prepareOutgoing("transaction", message, keyPrefix, messages.length));
      this.#queues.learn(messages.slice(-1));
    };
    this.#running++;
    try {
      const value = await this.#fn(this.#transactionOf(tx, send, readErrors));
      return { value, outgoing: checkOutgoing("transaction", messages) };
    } catch (error) {
      if (!readErrors.has(error)) this.#ownErrors.add(error);
      throw error;
    } finally {
      returned = true;
      this.#running--;
    }
  }

  /** `"failure"`: it is the function's own, so the message is charged with it. Undefined: the error itself tells. */
  kindOf(error: unknown): "failure" | undefined {
    if (this.#ownErrors.has(error)) return "failure";
    // The time was over while the function did something else than to wait for the table.
    const isSlow = this.#running > 0 && this.#reading === 0;
    return isSlow && isConcurrencyError(error, "OPERATION_TIMEOUT") ? "failure" : undefined;
  }

  #transactionOf(tx: TransactionRun, send: CommitTransaction["send"], readErrors: Set<unknown>): CommitTransaction {
    const read = <R>(reading: Promise<R>): Promise<R> => {
      this.#reading++;
      const observed = reading.catch((error: unknown) => {
        readErrors.add(error);
        throw error;
      });
      // The function may not wait for it.
      observed.catch(() => undefined).finally(() => this.#reading--);
      return observed;
    };
    return {
      partitionKey: tx.partitionKey,
      attempt: tx.attempt,
      signal: tx.signal,
      get: (rowKey, options) => read(tx.get(rowKey, options)),
      getMany: (rowKeys, options) => read(tx.getMany(rowKeys, options)),
      query: (query, options) => read(tx.query(query, options)),
      create: (entity) => tx.create(entity),
      update: (patch) => tx.update(patch),
      replace: (entity) => tx.replace(entity),
      upsert: (entity) => tx.upsert(entity),
      delete: (entity) => tx.delete(entity),
      send,
    };
  }
}
