import type { InboxTableAction } from "../../clients.js";
import type { InboxDelivery, InboxVerdict } from "./inbox.js";
import { entityOf, holdOf, judge } from "./record.js";
import type { InboxRecord } from "./record.js";
import type { GroupItem } from "./write-batcher.js";

/** A claim as its holder knows it. */
export interface HeldClaim {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly record: Pick<InboxRecord, "owner" | "messageId" | "dequeueCount" | "attempts" | "holdInMs">;
  etag: string;
  /** Done or released. An extension that comes after that must not be sent: on the new ETag, it would undo it. */
  over: boolean;
}

/** One step of the holder of a claim, on its way to the table: claimed again (an extension), done, or released. */
export class StepItem implements GroupItem {
  readonly claim: HeldClaim;
  /** Nobody waits for it any more. */
  abandoned = false;
  readonly #to: InboxRecord["state"];
  #recreate = false;
  #result: boolean | undefined;

  constructor(claim: HeldClaim, to: InboxRecord["state"]) {
    this.claim = claim;
    this.#to = to;
  }

  get rowKey(): string {
    return this.claim.rowKey;
  }

  get settled(): boolean {
    return this.#result !== undefined || this.abandoned || (this.#to === "claimed" && this.claim.over);
  }

  /** Whether it was carried out; if not, somebody else has taken over. */
  get carriedOut(): boolean {
    return this.#result === true;
  }

  action(group: string): InboxTableAction {
    const { partitionKey, rowKey, record, etag } = this.claim;
    if (this.#recreate) return ["create", entityOf(partitionKey, rowKey, { ...record, state: this.#to, group })];
    return ["update", entityOf(partitionKey, rowKey, { state: this.#to, group }), "Merge", { etag }];
  }

  landed(etag: string | undefined): void {
    if (etag) this.claim.etag = etag;
    if (this.#to !== "claimed") this.claim.over = true;
    // Only a claim that goes on needs its ETag.
    if (etag || this.#to !== "claimed") this.#result = true;
  }

  found(record: InboxRecord | undefined): void {
    // Gone: purged, as it was claimed long ago, or wiped. Nobody else has it, so it is written anew.
    this.#recreate = record === undefined;
    if (!record) return;
    if (record.owner !== this.claim.record.owner) {
      this.#result = false;
      return;
    }
    // Nobody but the holder moves a record with its name: another ETag is what an earlier, unanswered step left.
    const moved = record.etag !== this.claim.etag;
    this.claim.etag = record.etag;
    if (record.state !== "claimed") this.claim.over = true;
    if (record.state === this.#to && (moved || this.#to !== "claimed")) this.#result = true;
    // Done cannot be taken back, and released was the last word of an earlier step.
    else if (record.state !== "claimed") this.#result = false;
  }
}

/** What a {@link ClaimItem} comes to. */
export type Claimed =
  | { readonly kind: "claimed"; readonly etag: string; readonly attempts: number; readonly holdInMs: number }
  | Exclude<InboxVerdict, { kind: "claimed" }>;

/** The claim of one key, on its way to the table. At first it is taken to be new, which most are. */
export class ClaimItem implements GroupItem {
  readonly rowKey: string;
  readonly owner: string;
  readonly #partitionKey: string;
  readonly #delivery: InboxDelivery;
  #base: InboxRecord | undefined;
  #attempts = 1;
  #result: Claimed | undefined;

  constructor(partitionKey: string, rowKey: string, owner: string, delivery: InboxDelivery) {
    this.#partitionKey = partitionKey;
    this.rowKey = rowKey;
    this.owner = owner;
    this.#delivery = delivery;
  }

  get settled(): boolean {
    return this.#result !== undefined;
  }

  get result(): Claimed {
    if (!this.#result) throw new Error("the claim is not settled");
    return this.#result;
  }

  action(group: string): InboxTableAction {
    const { messageId, dequeueCount } = this.#delivery;
    const entity = entityOf(this.#partitionKey, this.rowKey, {
      state: "claimed",
      owner: this.owner,
      messageId,
      dequeueCount,
      attempts: this.#attempts,
      holdInMs: holdOf(this.#delivery),
      group,
    });
    return this.#base ? ["update", entity, "Replace", { etag: this.#base.etag }] : ["create", entity];
  }

  landed(etag: string | undefined): void {
    if (etag) this.#result = { kind: "claimed", etag, attempts: this.#attempts, holdInMs: holdOf(this.#delivery) };
  }

  found(record: InboxRecord | undefined): void {
    const judgement = judge(record, this.#delivery, this.owner);
    switch (judgement.kind) {
      case "free":
        this.#base = record;
        this.#attempts = judgement.attempts;
        break;
      case "ours":
        if (record) this.#result = { kind: "claimed", etag: record.etag, attempts: record.attempts, holdInMs: record.holdInMs };
        break;
      default:
        this.#result = judgement;
    }
  }
}
