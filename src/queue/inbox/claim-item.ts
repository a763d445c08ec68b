import type { InboxTableAction } from "../../clients.js";
import { entityOf } from "./entity.js";
import type { InboxDelivery, InboxVerdict } from "./inbox.js";
import { holdOf, judge } from "./record.js";
import type { InboxRecord } from "./record.js";
import type { GroupItem } from "./submit-group.js";

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
