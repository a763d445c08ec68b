import type { TableLike } from "../../clients/table.js";
import { Outbox } from "../../outbox/outbox.js";
import { recordOf, rowKeyPrefix } from "../../queue/inbox/record.js";
import { quoted } from "../../target/library-rows.js";
import { ownRowPages } from "../../target/own-rows.js";
import { limitRequests } from "./request-counter.js";
import type { TableView } from "./snapshot.js";

/** Of a thousand rows each: the records of an inbox may be millions. */
const maxPages = 5;
/** Of the outbox: one for its markers, and one for the rows of each. */
const maxRequests = 20;
const maxMessages = 1_000;

/** Counts the records of the inboxes, and the messages of the outbox. Costs 25 requests at most: what is beyond is not counted. */
export async function collectTable(table: TableLike, abortSignal: AbortSignal): Promise<TableView> {
  const [inbox, outbox] = await Promise.all([countInbox(table, abortSignal), countOutbox(table, abortSignal)]);
  return { inbox, outbox };
}

async function countInbox(table: TableLike, abortSignal: AbortSignal): Promise<TableView["inbox"]> {
  const count = { claimed: 0, released: 0, done: 0 };
  const filter = `RowKey ge ${quoted(rowKeyPrefix)} and RowKey lt ${quoted(`${rowKeyPrefix.slice(0, -1)}"`)}`; // " is the character after !
  let pages = 0;
  for await (const rows of ownRowPages(table, { queryOptions: { filter, select: ["PartitionKey", "RowKey", "state"] }, abortSignal }, 1_000)) {
    for (const row of rows) count[recordOf(row).state]++;
    // A page may be short, or empty, and another one follow.
    if (++pages === maxPages) break;
  }
  return { claimed: count.claimed, released: count.released, completed: count.done, isLowerBound: pages === maxPages };
}

async function countOutbox(table: TableLike, outer: AbortSignal): Promise<TableView["outbox"]> {
  let messages = 0;
  let oldest = Infinity;
  let isLowerBound = false;
  await limitRequests(maxRequests, outer, async (abortSignal) => {
    try {
      for await (const { addedOn } of new Outbox(table, { queues: [] }).list({ abortSignal })) {
        messages++;
        oldest = Math.min(oldest, addedOn.getTime());
        isLowerBound = messages === maxMessages;
        if (isLowerBound) break;
      }
    } catch (error) {
      if (!abortSignal.aborted || outer.aborted) throw error;
      isLowerBound = true;
    }
  });
  return { messages, oldestOn: Number.isFinite(oldest) ? new Date(oldest).toISOString() : undefined, isLowerBound };
}
