import type { InboxTableLike } from "../../clients.js";
import type { HeldClaim, StepItem } from "./step-item.js";
import { submitGroup } from "./submit-group.js";

/** What an entity group transaction takes. */
export const maxGroup: number = 100;

/** Handlers of one batch end close to each other. So long a message waits for company, less if there is enough. */
const lingerInMs = 5;

interface Waiting {
  readonly item: StepItem;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Gathers the steps of many claims in one partition into few transactions, one at a time. */
export class Gather {
  readonly #table: InboxTableLike;
  readonly #partitionKey: string;
  readonly #boundInMs: number;
  #waiting: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: { readonly items: readonly StepItem[]; readonly controller: AbortController } | undefined;

  constructor(table: InboxTableLike, partitionKey: string, boundInMs: number) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#boundInMs = boundInMs;
  }

  add(item: StepItem): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#arm();
    });
  }

  /** Takes back the steps of a claim. A transaction in which nobody is interested any more is cut off. */
  abandon(claim: HeldClaim): void {
    for (const { item } of this.#waiting) if (item.claim === claim) item.abandoned = true;
    if (!this.#sending) return;
    const { items, controller } = this.#sending;
    for (const item of items) if (item.claim === claim) item.abandoned = true;
    if (items.every((item) => item.abandoned)) controller.abort();
  }

  #arm(): void {
    if (this.#sending || this.#waiting.length === 0) return;
    if (this.#waiting.length >= maxGroup) void this.#send();
    else this.#timer ??= setTimeout(() => void this.#send(), lingerInMs);
  }

  async #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const group = this.#next();
    const items = group.map(({ item }) => item);
    const controller = new AbortController();
    this.#sending = { items, controller };
    try {
      await submitGroup(this.#table, this.#partitionKey, items, this.#boundInMs, controller.signal);
      for (const { resolve } of group) resolve();
    } catch (error) {
      // Some may be through in spite of it; the others are asked again by those who wait for them.
      for (const { item, resolve, reject } of group) if (item.settled) resolve(); else reject(error);
    } finally {
      this.#sending = undefined;
      this.#arm();
    }
  }

  /** A transaction takes each row once: a second step of the same claim waits for the next. */
  #next(): Waiting[] {
    const rows = new Set<string>();
    const group: Waiting[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      const { rowKey } = waiting.item;
      if (group.length === maxGroup || rows.has(rowKey)) return true;
      rows.add(rowKey);
      group.push(waiting);
      return false;
    });
    return group;
  }
}
