import { PendingCall } from "../internal/pending-call.js";
import type { PendingCallSettings } from "../internal/pending-call.js";
import type { EdmType } from "../table/edm.js";
import type { Transaction } from "./transaction.js";

/** What a transaction did. */
export interface TransactionResult<R> {
  /** What the function returned. */
  value: R;
  /** `"unchanged"`: the function changed nothing, and nothing was written. */
  outcome: "committed" | "unchanged";
  /** How often the function ran. */
  attempts: number;
}

export interface TransactionSettings extends PendingCallSettings {
  readonly types: Readonly<Record<string, EdmType>>;
}

/** One caller of `runTransaction`, and its function. */
export class TransactionCall extends PendingCall<TransactionResult<unknown>, TransactionSettings> {
  readonly fn: (tx: Transaction) => unknown;
  /** Read before creating: an insert that failed does not tell what it found. */
  careful = false;

  constructor(fn: (tx: Transaction) => unknown, settings: TransactionSettings) {
    super(settings);
    this.fn = fn;
  }
}
