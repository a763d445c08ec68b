import { PendingCall } from "../internal/pending-call.js";
import type { PendingCallSettings } from "../internal/pending-call.js";
import type { Mutator } from "./mutator.js";
import type { Snapshot } from "./target.js";

/** What an update did. */
export interface UpdateResult<T> {
  /** The value as this call left it (for `"deleted"`: as it was). */
  value: T;
  /**
   * The ETag of exactly this `value`. Where another update was committed on top in the same write, or before this
   * one's answer was recovered, it is one that no longer matches.
   */
  etag: string;
  outcome: "created" | "updated" | "unchanged" | "deleted";
  /** How often the mutator ran. */
  attempts: number;
}

/** The options of one update after defaults and checks. */
export interface CallSettings<T, Raw> extends PendingCallSettings {
  readonly initial: T | (() => T) | undefined;
  readonly firstRead: Snapshot<Raw> | undefined;
}

/** One caller of an update, and its mutator. */
export class UpdateCall<T, Raw> extends PendingCall<UpdateResult<T>, CallSettings<T, Raw>> {
  readonly mutator: Mutator<T>;

  constructor(mutator: Mutator<T>, settings: CallSettings<T, Raw>) {
    super(settings);
    this.mutator = mutator;
  }
}
