import type { TransactionActionLike } from "../../clients/table.js";
import type { Clock } from "../../core/deadline.js";
import type { InboxDelivery, InboxClaimResult } from "./inbox.js";
import { decideClaim, entityOf } from "./record.js";
import type { InboxRecord } from "./record.js";

/** A write of one record, sent to the table together with others. */
export interface BatchedWrite {
  readonly rowKey: string;
  /** The ETag that the record must have for the write to be committed; undefined: the record must not exist. */
  readonly baseETag: string | undefined;
  /** Whether nothing is left to do. */
  readonly settled: boolean;
  /** What to send. The record contains `group`, which shows later that the whole group was committed. */
  action(group: string): TransactionActionLike;
  /** The write was committed. A write that needs the ETag, and does not get it, stays unsettled. */
  committed(etag: string | undefined): void;
  /** What the table contains: settles the write, or prepares it to be sent again on that basis. */
  found(record: InboxRecord | undefined): void;
}

/** A claim as its holder knows it. */
export interface HeldClaim {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly record: Pick<InboxRecord, "owner" | "messageId" | "dequeueCount" | "failures" | "payloadHash" | "claimDurationInMs">;
  etag: string;
  /** Done or released. A renewal must not be sent after that: with the new ETag, it would undo it. */
  ended: boolean;
}

/** A transition by the holder of a claim: to claimed again (a renewal), done, or released; `failed`: it counts as a failure. */
export class TransitionWrite implements BatchedWrite {
  readonly claim: HeldClaim;
  /** No caller waits for it any more. */
  abandoned = false;
  readonly #to: InboxRecord["state"];
  readonly #failures: number | undefined;
  #recreate = false;
  #result: boolean | undefined;

  constructor(claim: HeldClaim, to: InboxRecord["state"], failed = false) {
    this.claim = claim;
    this.#to = to;
    this.#failures = failed ? claim.record.failures + 1 : undefined;
  }

  get rowKey(): string {
    return this.claim.rowKey;
  }

  get baseETag(): string | undefined {
    return this.#recreate ? undefined : this.claim.etag;
  }

  get settled(): boolean {
    return this.#result !== undefined || this.abandoned || (this.#to === "claimed" && this.claim.ended);
  }

  /** Whether it was committed; if not, another consumer has taken over. */
  get succeeded(): boolean {
    return this.#result === true;
  }

  action(group: string): TransactionActionLike {
    const { partitionKey, rowKey, record, etag } = this.claim;
    const change = { state: this.#to, group, ...(this.#failures !== undefined && { failures: this.#failures }) };
    if (this.#recreate) return ["create", entityOf(partitionKey, rowKey, { ...record, ...change })];
    return ["update", entityOf(partitionKey, rowKey, change), "Merge", { etag }];
  }

  committed(etag: string | undefined): void {
    if (etag) this.claim.etag = etag;
    if (this.#to !== "claimed") this.claim.ended = true;
    // Only a claim that continues needs its ETag.
    if (etag || this.#to !== "claimed") this.#result = true;
  }

  found(record: InboxRecord | undefined): void {
    // It was purged, as it was claimed long ago, or deleted otherwise. No other consumer has claimed it, so it is created again.
    this.#recreate = record === undefined;
    if (!record) return;
    if (record.owner !== this.claim.record.owner) {
      this.#result = false;
      return;
    }
    // Only the holder changes a record with its owner id: another ETag is that of an earlier transition whose response was lost.
    const changed = record.etag !== this.claim.etag;
    this.claim.etag = record.etag;
    if (record.state !== "claimed") this.claim.ended = true;
    if (record.state === this.#to && (changed || this.#to !== "claimed")) this.#result = true;
    // Done is final, and so is a release by an earlier transition.
    else if (record.state !== "claimed") this.#result = false;
  }
}

/** The outcome of a {@link ClaimWrite}. */
export type ClaimOutcome =
  | { readonly kind: "claimed"; readonly etag: string; readonly failures: number }
  | Exclude<InboxClaimResult, { kind: "claimed" }>;

/** The claim of one key. At first the key is assumed to be new, as most are. */
export class ClaimWrite implements BatchedWrite {
  readonly rowKey: string;
  readonly owner: string;
  readonly #partitionKey: string;
  readonly #delivery: InboxDelivery;
  readonly #clock: Clock;
  #base: InboxRecord | undefined;
  #failures = 0;
  #result: ClaimOutcome | undefined;

  /** @param clock - Started when the inbox got the delivery, and so not before the message was received. */
  constructor(partitionKey: string, rowKey: string, owner: string, delivery: InboxDelivery, clock: Clock) {
    this.#clock = clock;
    this.#partitionKey = partitionKey;
    this.rowKey = rowKey;
    this.owner = owner;
    this.#delivery = delivery;
  }

  get baseETag(): string | undefined {
    return this.#base?.etag;
  }

  get settled(): boolean {
    return this.#result !== undefined;
  }

  get result(): ClaimOutcome {
    if (!this.#result) throw new Error("the claim is not settled");
    return this.#result;
  }

  action(group: string): TransactionActionLike {
    const { messageId, dequeueCount, payloadHash } = this.#delivery;
    const entity = entityOf(this.#partitionKey, this.rowKey, {
      state: "claimed",
      owner: this.owner,
      messageId,
      dequeueCount,
      failures: this.#failures,
      payloadHash,
      claimDurationInMs: this.#delivery.claimDurationInMs,
      group,
    });
    return this.#base ? ["update", entity, "Replace", { etag: this.#base.etag }] : ["create", entity];
  }

  committed(etag: string | undefined): void {
    if (etag) this.#result = { kind: "claimed", etag, failures: this.#failures };
  }

  found(record: InboxRecord | undefined): void {
    const decision = decideClaim(record, this.#delivery, this.owner, this.#delivery.receivedOn.getTime() + this.#clock());
    switch (decision.kind) {
      case "free":
        this.#base = record;
        this.#failures = decision.failures;
        break;
      case "own":
        if (record) this.#result = { kind: "claimed", etag: record.etag, failures: record.failures };
        break;
      default:
        this.#result = decision;
    }
  }
}
