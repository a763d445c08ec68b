import { PendingCall } from "../internal/pending-call.js";
import type { AppendSettings } from "./append-group.js";

/** Where a record stands. */
export interface AppendResult {
  /** The position of its first byte in the blob. */
  offset: number;
  /** How many blocks the blob had when the record was found to be in it. There can be 50,000. */
  committedBlockCount: number;
  /** How often it was tried: more than 1 means that others appended first. */
  attempts: number;
}

/** One caller, and its record. */
export class AppendCall extends PendingCall<AppendResult, AppendSettings> {
  readonly record: Uint8Array;

  constructor(record: Uint8Array, settings: AppendSettings) {
    super(settings);
    this.record = record;
  }
}
