import { WriteCall } from "../core/pending-call.js";
import type { WriteCallSettings } from "../core/pending-call.js";
import type { CreateAppendBlobOptions } from "./append-state.js";

/** The options of one append after defaults and checks. */
export interface AppendSettings extends WriteCallSettings {
  readonly leaseId: string | undefined;
  readonly uniqueRecords: boolean;
  readonly coalesce: boolean;
  readonly createOptions: CreateAppendBlobOptions | undefined;
  readonly maxSizeInBytes: number;
  readonly maxBatchSizeInBytes: number;
}

/** The result of {@link appendExactlyOnce}: where the record is stored. */
export interface AppendResult {
  /** The position of its first byte in the blob. */
  readonly offset: number;
  /** How many blocks the blob had when the record was known to be committed. The maximum is 50,000. */
  readonly committedBlockCount: number;
  /** The number of attempts: more than 1 means that other appenders were first. */
  readonly attempts: number;
}

/** One caller, and its record. */
export class AppendCall extends WriteCall<AppendResult, AppendSettings> {
  readonly record: Uint8Array;
  /** Where a claim has its operation, but other bytes are stored: a client that does not use claims has appended them. */
  otherBytesAt: number | undefined;

  constructor(record: Uint8Array, settings: AppendSettings) {
    super(settings);
    this.record = record;
  }
}
