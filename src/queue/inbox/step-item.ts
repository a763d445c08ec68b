import type { InboxTableAction } from "../../clients.js";
import { entityOf } from "./entity.js";
import type { InboxRecord } from "./record.js";
import type { GroupItem } from "./submit-group.js";

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
