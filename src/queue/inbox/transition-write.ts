import type { TransactionActionLike } from "../../clients/table.js";
import type { BatchedRow, BatchedWrite } from "./batched-write.js";
import { holderOf, RecordClaim, rowOf } from "./claim-write.js";
import type { ClaimOutcome, RecordTarget } from "./claim-write.js";
import { groupEntityOf, groupRowOf } from "./group-row.js";
import { entityOf, recordOf } from "./record.js";
import type { InboxRecord } from "./record.js";

/** A claim as its holder knows it. */
export interface HeldClaim {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly record: Pick<InboxRecord, "owner" | "messageId" | "dequeueCount" | "failures" | "claims" | "payloadHash" | "claimDurationInMs">;
  etag: string;
  /**
   * How it has ended. No transition may be sent after that: with the new ETag, a renewal or a release would undo it, and a second
   * completion would free the group of another message, or set its sequence back. A completion that no caller waits for any more may be
   * committed while the caller tries again.
   */
  ended: "done" | "released" | undefined;
  readonly group: HeldGroup | undefined;
}

/** The group that is held with a claim. */
export interface HeldGroup {
  readonly rowKey: string;
  /** The sequence of the message. */
  readonly sequence: number | undefined;
  /** Whether the row stays when the group is free, as it contains the last sequence. */
  readonly stays: boolean;
  /** The group was freed by a completion: the next claim of this process need not read its row. */
  readonly onCompleted: (etag: string) => void;
}

/** What a transition does besides. */
export interface TransitionOptions {
  /** A release counts as a failure. */
  readonly failed?: boolean | undefined;
  /** A completion hands the group over to this message. */
  readonly next?: RecordTarget | undefined;
}

/**
 * A transition by the holder of a claim: to claimed again (a renewal), done, or released.
 *
 * The row of a group is written without a condition of its own, as a transaction cannot delete conditionally. The record is the
 * condition of both: each transaction that takes the group over from its holder also changes the record of that holder. So while the
 * ETag of the record is the known one, the group is held.
 *
 * A completion may hand the group over to another message that this process has received. Its record is claimed in the same transaction,
 * and the row of the group names it, so that the group is free at no time in between:
 *
 * | transaction of a message M | record of M     | row of the group                       | record of N                                  |
 * |----------------------------|-----------------|----------------------------------------|----------------------------------------------|
 * | renewed                    | claimed by M    | claimed by M                           |                                              |
 * | released                   | released        | deleted, or released with its sequence |                                              |
 * | done                       | done            | deleted, or released with its sequence |                                              |
 * | done, handed over to N     | done            | claimed by N, with the sequence of M   | created, or updated on its ETag: claimed by N |
 *
 * If N cannot be claimed, as its key is completed or claimed by another message, M is completed without it. A process that dies after the
 * hand-over leaves N claimed, although its handler has not started: as if it had died in the handler. The next delivery of N takes record
 * and group over at once, and other messages of the group when the claim has expired.
 */
export class TransitionWrite implements BatchedWrite {
  readonly claim: HeldClaim;
  /** No caller waits for it any more. */
  abandoned = false;
  readonly #rows: readonly BatchedRow[];
  readonly #next: RecordClaim | undefined;
  readonly #nextRow: BatchedRow | undefined;
  #nextResult: ClaimOutcome | "not claimed" | undefined;
  readonly #to: InboxRecord["state"];
  readonly #failures: number | undefined;
  #recreate = false;
  #unread = false;
  /** The row of the group is missing, or another consumer has it: an operator has changed the table. */
  #groupLost = false;
  #result: boolean | undefined;

  constructor(claim: HeldClaim, to: InboxRecord["state"], { failed = false, next }: TransitionOptions = {}) {
    this.claim = claim;
    this.#to = to;
    this.#failures = failed ? claim.record.failures + 1 : undefined;
    this.#next = next && new RecordClaim(next);
    // Assumed to be new, even if it was delivered before: most of those were given back, as they had to wait.
    this.#nextRow = this.#next && this.#rowOfNext(this.#next);
    this.#rows = claim.group ? [this.#recordRow(), this.#groupRow(claim.group)] : [this.#recordRow()];
  }

  get rows(): readonly BatchedRow[] {
    return this.#nextRow && this.#nextResult === undefined ? [...this.#rows, this.#nextRow] : this.#rows;
  }

  get settled(): boolean {
    const committed = this.#committedBefore;
    return this.abandoned || committed === false || (committed === true && (!this.#next || this.#nextResult !== undefined));
  }

  /** Whether it was committed; if not, another consumer has taken over. */
  get succeeded(): boolean {
    return this.#committedBefore === true;
  }

  /** By this write, or by an earlier one of the same claim. Undefined: by none. */
  get #committedBefore(): boolean | undefined {
    const { ended } = this.claim;
    return this.#result ?? (ended && ended === this.#to);
  }

  /** What a claim of the next message would return now. Undefined: it is not known. */
  get next(): ClaimOutcome | undefined {
    return this.#nextResult === "not claimed" ? undefined : this.#nextResult;
  }

  #rowOfNext(next: RecordClaim): BatchedRow {
    const settleIfOwned = (): void => {
      const { owned } = next.state;
      if (owned !== undefined) this.#nextResult = { kind: "claimed", etag: owned, failures: next.failures, claims: next.claims, groupStays: this.claim.group?.stays ?? false };
    };
    const row = rowOf(next.state, next.target.rowKey, {
      action: (batch) => next.action(batch),
      committed: (etag) => {
        next.committed(etag);
        settleIfOwned();
      },
      found: (entity) => {
        const decision = next.found(entity && recordOf(entity));
        if (decision.kind === "own") settleIfOwned();
        else if (decision.kind !== "free") this.#nextResult = decision;
        // The completion was committed, and an earlier call has done it without the next message, or another consumer has that since.
        else if (this.#committedBefore) this.#nextResult = "not claimed";
      },
    });
    // Whether the transaction that has completed the message contained the next one is shown by the record of that.
    const unread = (): boolean => next.state.unread || (this.#committedBefore === true && this.#nextResult === undefined);
    return Object.defineProperty(row, "unread", { get: unread });
  }

  #recordRow(): BatchedRow {
    const unread = (): boolean => this.#unread;
    const baseETag = (): string | undefined => (this.#recreate ? undefined : this.claim.etag);
    return {
      rowKey: this.claim.rowKey,
      get baseETag() {
        return baseETag();
      },
      get unread() {
        return unread();
      },
      action: (batch) => this.#action(batch),
      committed: (etag) => this.#committed(etag),
      found: (entity) => this.#found(entity && recordOf(entity)),
    };
  }

  #groupRow({ rowKey, sequence, stays, onCompleted }: HeldGroup): BatchedRow {
    const { partitionKey, record } = this.claim;
    const lastSequence = this.#to === "done" ? sequence : undefined;
    return {
      rowKey,
      baseETag: undefined,
      unread: false,
      action: () => {
        if (this.#next && this.#nextResult === undefined) {
          return ["update", groupEntityOf(partitionKey, rowKey, { ...holderOf(this.#next.target), lastSequence }), "Merge", { etag: "*" }];
        }
        if (this.#to !== "claimed" && !stays) return ["delete", { partitionKey, rowKey }];
        return ["update", groupEntityOf(partitionKey, rowKey, { state: this.#to === "claimed" ? "claimed" : "released", lastSequence }), "Merge", { etag: "*" }];
      },
      committed: (etag) => {
        const isFree = this.#next === undefined || this.#nextResult !== undefined;
        if (etag !== undefined && this.#to === "done" && stays && isFree) onCompleted(etag);
      },
      found: (entity) => {
        const row = entity && groupRowOf(entity);
        if (row?.state === "claimed" && row.owner === record.owner) return;
        // It may be this transition itself, whose response was lost: the record shows.
        this.#groupLost = true;
        this.#unread = true;
      },
    };
  }

  #action(batch: string): TransactionActionLike {
    const { partitionKey, rowKey, record, etag } = this.claim;
    const change = { state: this.#to, batch, ...(this.#failures !== undefined && { failures: this.#failures }) };
    if (this.#recreate) return ["create", entityOf(partitionKey, rowKey, { ...record, ...change })];
    return ["update", entityOf(partitionKey, rowKey, change), "Merge", { etag }];
  }

  #committed(etag: string | undefined): void {
    if (etag) this.claim.etag = etag;
    if (this.#to !== "claimed") this.claim.ended = this.#to;
    // Only a claim that continues needs its ETag.
    if (etag || this.#to !== "claimed") this.#result = true;
    else this.#unread = true;
  }

  #found(record: InboxRecord | undefined): void {
    this.#unread = false;
    if (!record) {
      // It was purged, as it was claimed long ago, or deleted otherwise. No other consumer has claimed it, so it is created again. But
      // another message may have the group, which only the record would show.
      if (this.claim.group) this.#result = false;
      else this.#recreate = true;
      return;
    }
    this.#recreate = false;
    if (record.owner !== this.claim.record.owner) {
      this.#result = false;
      return;
    }
    // Only the holder changes a record with its owner id: another ETag is that of an earlier transition whose response was lost. The one
    // exception is the consumer that takes the group over: it sets the record to released.
    const changed = record.etag !== this.claim.etag;
    this.claim.etag = record.etag;
    if (record.state !== "claimed") this.claim.ended = record.state;
    if (record.state === this.#to && (changed || this.#to !== "claimed")) this.#result = true;
    // Done is final, and so is a release by an earlier transition.
    else if (record.state !== "claimed" || this.#groupLost) this.#result = false;
  }
}
