import type { TransactionActionLike } from "../../clients/table.js";
import type { Clock } from "../../core/deadline.js";
import type { BatchedRow, BatchedWrite } from "./batched-write.js";
import { decideGroup, groupEntityOf, groupRowOf } from "./group-row.js";
import type { GroupRow } from "./group-row.js";
import type { InboxClaimResult, InboxDelivery } from "./inbox.js";
import { decideClaim, entityOf, isRowKeyOf, queueIdentityOf, recordOf } from "./record.js";
import type { ClaimDecision, InboxRecord } from "./record.js";

/** The outcome of a {@link ClaimWrite}. */
export type ClaimOutcome =
  | { readonly kind: "claimed"; readonly etag: string; readonly failures: number; readonly claims: number; readonly groupStays: boolean }
  | Exclude<InboxClaimResult, { kind: "claimed" }>;

/** A key that is to be claimed, and where its record is stored. */
export interface RecordTarget {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly owner: string;
  readonly delivery: InboxDelivery;
  /** Started when the inbox got the delivery, and so not before the message was received. */
  readonly clock: Clock;
}

/** What a claim is about: a key and, if it has one, its group. */
export interface ClaimTarget extends RecordTarget {
  readonly groupRowKey: string | undefined;
  /** Another consumer had the group when this process last read its row: reading its row first avoids the conflict. */
  readonly isHeldElsewhere: boolean;
  /** The row of the group as this process has left it. Undefined: not known. */
  readonly knownGroup: GroupRow | undefined;
}

/**
 * The claim of one key and, if it has one, of its group: in one transaction. At first the key is assumed to be new and the group to be
 * free, as most are.
 *
 * A consumer that takes a group over from another message also sets the record of that message to released. Its holder would otherwise
 * not notice, and its completion would free the group of its successor: see {@link TransitionWrite}.
 */
export class ClaimWrite implements BatchedWrite {
  readonly target: ClaimTarget;
  readonly #record: RecordClaim;
  readonly #group = new RowState<GroupRow>();
  readonly #evicted = new RowState<InboxRecord>();
  readonly #recordRow: BatchedRow;
  readonly #groupRow: BatchedRow | undefined;
  #evictedRow: BatchedRow | undefined;
  #sequenceUsed = false;
  #result: ClaimOutcome | undefined;

  constructor(target: ClaimTarget) {
    this.target = target;
    const { delivery, knownGroup, groupRowKey, isHeldElsewhere } = target;
    this.#record = new RecordClaim(target);
    // A message that was delivered before is likely to have a record: reading it first avoids the conflict.
    this.#record.state.unread = delivery.dequeueCount > 1;
    this.#group.unread = delivery.dequeueCount > 1 || isHeldElsewhere;
    // Only what lets it start: another consumer may have completed messages since.
    if (knownGroup && knownGroup.lastSequence === (delivery.sequence ?? 0) - 1) this.#group.base = knownGroup;
    // The first of a sequence is likely to find no row, and any other one needs to know the last.
    else if ((delivery.sequence ?? 1) > 1) this.#group.unread = true;
    this.#recordRow = rowOf(this.#record.state, target.rowKey, {
      action: (batch) => this.#record.action(batch),
      committed: (etag) => {
        this.#record.committed(etag);
        this.#settleIfOwned();
      },
      found: (entity) => this.#foundRecord(entity && recordOf(entity)),
    });
    if (groupRowKey === undefined) return;
    this.#groupRow = rowOf(this.#group, groupRowKey, {
      action: () => this.#groupAction(groupRowKey),
      committed: (etag) => {
        // Its ETag is not needed: the record is the condition of all that follows.
        this.#group.owned = etag ?? "*";
        this.#settleIfOwned();
      },
      found: (entity) => this.#foundGroup(entity && groupRowOf(entity)),
    });
  }

  get rows(): readonly BatchedRow[] {
    return [this.#recordRow, ...(this.#groupRow ? [this.#groupRow] : []), ...(this.#evictedRow ? [this.#evictedRow] : [])];
  }

  get settled(): boolean {
    return this.#result !== undefined;
  }

  get result(): ClaimOutcome {
    if (!this.#result) throw new Error("the claim is not settled");
    return this.#result;
  }

  #groupAction(rowKey: string): TransactionActionLike {
    return writeOn(this.#group.base, groupEntityOf(this.target.partitionKey, rowKey, { ...holderOf(this.target), lastSequence: this.#lastSequence }));
  }

  /** Undefined: the row is deleted when the group is free. */
  get #lastSequence(): number | undefined {
    const { sequence } = this.target.delivery;
    return sequence === undefined ? this.#group.base?.lastSequence : sequence - 1;
  }

  #foundRecord(record: InboxRecord | undefined): void {
    const decision = this.#record.found(record);
    switch (decision.kind) {
      case "free":
        if (this.#sequenceUsed) this.#result = { kind: "sequenceUsed" };
        break;
      case "own":
        this.#group.unread = this.#group.owned === undefined;
        this.#settleIfOwned();
        break;
      default:
        // Also if the group is busy: a key that is completed need not wait for it.
        this.#result = decision;
    }
  }

  #foundGroup(row: GroupRow | undefined): void {
    const { delivery, owner, rowKey } = this.target;
    this.#group.set(row);
    this.#evictedRow = undefined;
    if (this.#result) return;
    const decision = decideGroup(row, delivery, owner, serviceTimeOf(this.target));
    switch (decision.kind) {
      case "free":
        if (row?.state === "claimed" && row.recordRowKey !== rowKey && isRecordOf(row.recordRowKey, delivery)) this.#evict(row);
        break;
      case "own":
        this.#group.owned = row?.etag;
        this.#settleIfOwned();
        break;
      case "sequenceUsed":
        this.#sequenceUsed = true;
        // Read again, even if it is known: the message itself may have been completed between the read of its record and that of the group.
        this.#record.state.unread = true;
        break;
      default:
        this.#result = decision;
    }
  }

  /** The record of the message that has the group, in the state in which that message would still free the group. */
  #evict({ recordRowKey, owner }: GroupRow): void {
    const { partitionKey } = this.target;
    this.#evicted.unread = true;
    this.#evictedRow = rowOf(this.#evicted, recordRowKey, {
      // Without the batch: it is not a row by which this batch is recognised.
      action: () => ["update", entityOf(partitionKey, recordRowKey, { state: "released" }), "Merge", { etag: this.#evicted.base?.etag ?? "" }],
      committed: () => undefined,
      found: (entity) => {
        const record = entity && recordOf(entity);
        this.#evicted.set(record);
        // Ended, or claimed by another delivery since: the earlier holder cannot change anything any more.
        if (record?.state !== "claimed" || record.owner !== owner) this.#evictedRow = undefined;
      },
    });
  }

  #settleIfOwned(): void {
    const { state, failures, claims } = this.#record;
    if (state.owned === undefined || (this.#groupRow && this.#group.owned === undefined)) return;
    this.#result = { kind: "claimed", etag: state.owned, failures, claims, groupStays: this.#lastSequence !== undefined };
  }
}

/** The record of a key that is being claimed: in a {@link ClaimWrite}, or in the transaction that completes the message before it in its group. */
export class RecordClaim {
  readonly target: RecordTarget;
  readonly state: RowState<InboxRecord> = new RowState<InboxRecord>();
  /** How many claims of the key have failed before. */
  failures = 0;
  /** How many claims of the key there were, with this one. */
  claims = 1;

  constructor(target: RecordTarget) {
    this.target = target;
  }

  action(batch: string): TransactionActionLike {
    const { partitionKey, rowKey, owner, delivery } = this.target;
    const { messageId, dequeueCount, payloadHash, claimDurationInMs } = delivery;
    const entity = entityOf(partitionKey, rowKey, { state: "claimed", owner, messageId, dequeueCount, failures: this.failures, claims: this.claims, payloadHash, claimDurationInMs, batch });
    return writeOn(this.state.base, entity);
  }

  /** It is the condition of all transitions that follow, so its ETag is needed. */
  committed(etag: string | undefined): void {
    this.state.owned = etag;
    this.state.unread = etag === undefined;
  }

  found(record: InboxRecord | undefined): ClaimDecision {
    const { delivery, owner } = this.target;
    this.state.set(record);
    const decision = decideClaim(record, delivery, owner, serviceTimeOf(this.target));
    if (decision.kind === "free" || decision.kind === "own") this.failures = record?.failures ?? 0;
    if (decision.kind === "free") this.claims = (record?.claims ?? 0) + 1;
    if (decision.kind === "own") this.claims = record?.claims ?? 1;
    if (decision.kind === "own") this.state.owned = record?.etag;
    return decision;
  }
}

/** The row of a group while a message has it. */
export function holderOf({ owner, delivery, rowKey: recordRowKey }: RecordTarget): Partial<GroupRow> {
  const { messageId, dequeueCount, claimDurationInMs } = delivery;
  return { state: "claimed", owner, messageId, dequeueCount, recordRowKey, claimDurationInMs };
}

/** Any program may have written the row of a group. A transaction with a row twice, or with an invalid key, would be rejected with all others of its batch. */
function isRecordOf(rowKey: string, { queueUrl }: Pick<InboxDelivery, "queueUrl">): boolean {
  return isRowKeyOf(queueIdentityOf(queueUrl), rowKey);
}

function serviceTimeOf({ delivery, clock }: RecordTarget): number {
  return delivery.receivedOn.getTime() + clock();
}

/** What is known of a row. */
class RowState<R extends { readonly etag: string }> {
  /** The row as it was read; undefined: it is assumed not to exist. */
  base: R | undefined;
  known = false;
  unread = false;
  /** The ETag of the row if this delivery has it. */
  owned: string | undefined;

  set(row: R | undefined): void {
    this.base = row;
    this.known = true;
    this.unread = false;
    this.owned = undefined;
  }
}

export function rowOf(state: RowState<{ readonly etag: string }>, rowKey: string, row: Pick<BatchedRow, "action" | "committed" | "found">): BatchedRow {
  return {
    ...row,
    rowKey,
    get baseETag() {
      return state.base?.etag;
    },
    get unread() {
      return state.unread;
    },
  };
}

function writeOn(base: { readonly etag: string } | undefined, entity: ReturnType<typeof entityOf>): TransactionActionLike {
  return base ? ["update", entity, "Replace", { etag: base.etag }] : ["create", entity];
}
