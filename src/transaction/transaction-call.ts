import type { TableLike } from "../clients/table.js";
import { WriteCall } from "../core/pending-call.js";
import type { WriteCallSettings } from "../core/pending-call.js";
import type { EdmType } from "../target/edm.js";
import type { IdentifiedOperation } from "./commit-transaction.js";
import type { Overlay } from "./overlay.js";
import type { Receipt } from "./repetition.js";
import type { Transaction } from "./transaction.js";

/** The settings that the transactions of one queue share. */
export interface PartitionSettings {
  readonly table: TableLike;
  readonly credentialScope: object;
  readonly partitionKey: string;
  readonly detectPhantoms: boolean;
  readonly coalesce: boolean;
}

/** The outcome of a transaction. `"unchanged"`: the function changed nothing, and nothing was written. */
export interface TransactionResult {
  /** What the function returned. */
  readonly value: unknown;
  readonly outcome: "committed" | "unchanged";
}

export interface TransactionSettings extends WriteCallSettings {
  readonly types: Readonly<Record<string, EdmType>>;
  /** The operation of `operationId`. */
  readonly operation: IdentifiedOperation | undefined;
  readonly receipt: Receipt | undefined;
}

/** One caller of `runTransaction`, and its function. */
export class TransactionCall extends WriteCall<TransactionResult, TransactionSettings> {
  readonly fn: (tx: Transaction) => unknown;
  /** Read a row before inserting it: a failed insert does not return the existing entity. */
  readBeforeInsert = false;
  /** Read the receipt before the function runs: it may exist. */
  readReceipt: boolean;
  /** What its function did in an earlier batch that it was not part of in the end. */
  finished: FinishedRun | undefined;
  /** What its function returned for the commits of unknown outcome, by the ids of their writes: one of them may be found later. */
  unknownValues: Map<string, unknown> | undefined;

  constructor(fn: (tx: Transaction) => unknown, settings: TransactionSettings) {
    super(settings);
    this.fn = fn;
    this.readReceipt = settings.receipt?.isExpected ?? false;
  }
}

/** How a function ended, and what it read and wrote. */
export interface FinishedRun {
  readonly overlay: Overlay;
  readonly result: FunctionResult;
}

/** What the function of a call returned or threw. */
export type FunctionResult = { readonly kind: "returned"; readonly value: unknown } | { readonly kind: "failed"; readonly error: unknown };
