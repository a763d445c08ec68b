import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { isAborted, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { inParallel } from "../core/parallel.js";
import { Recent } from "../core/recent.js";
import type { ServiceTime } from "../target/library-rows.js";
import type { SendCounts } from "./committed-sends.js";
import type { MessageSender } from "./message-sender.js";
import { markerOf, maxWaitInMs, messageRowOf, restOf } from "./outbox-rows.js";
import type { MessageRow, StoredMarker } from "./outbox-rows.js";
import type { OutboxTable } from "./outbox-table.js";

/** How many partitions are visited, and rows of one sent, at the same time. */
const concurrency = { markers: 8, rows: 16 };
/** The longest time until a marker with rows that could not be sent is visited again by the same relay. */
const maxRetryInMs = 5 * 60_000;
/**
 * When a marker without rows is deleted. Until then, a commit may be in flight that creates one: a process writes its marker less than
 * half of `relayAfterInMs` before it commits, by a clock that counts suspension, so it would have to be suspended for a day right then.
 */
export const abandonedAfterInMs: number = 86_400_000;

/** What a pass has done. `isIncomplete`: it has left rows that could be sent at once. */
export interface RelayResult extends SendCounts {
  readonly isIncomplete: boolean;
}

interface Visit {
  sent: number;
  failed: number;
  /** Rows that are damaged, or could not be sent. */
  kept: number;
  /** Rows that their own process may be about to send. */
  young: number;
  isIncomplete: boolean;
}

/** A marker, whether its visit is due, and what is known of the time since it was written. */
interface FoundMarker {
  readonly marker: StoredMarker;
  readonly ageInMs: number | undefined;
}

/**
 * Sends what ended processes left: rows that are older than `relayAfterInMs`. Any number of processes may do that at the same time. Each
 * pass lists the markers, and visits those that are due, the oldest first.
 *
 * Before a relay sends rows, it claims the marker: a conditional write, which only one of several relays can make. A relay that is suspended
 * after that may send a message that another one has sent meanwhile: with the same key. The claim does not put the next visit off: a relay
 * that is killed, or loses its connection, may have left everything.
 *
 * | marker                                            | visited                                                                    |
 * |---------------------------------------------------|----------------------------------------------------------------------------|
 * | its process has written it since the last visit   | `relayAfterInMs` after that                                                |
 * | claimed                                           | `relayAfterInMs` after that, if it is not known what came of it            |
 * | a visit could not send all of its rows            | `relayAfterInMs` after it, and twice as long each time, up to 5 minutes    |
 * | a visit found no rows                             | twice as long after each, up to an hour                                    |
 * | no rows, and not written by its process for a day | deleted                                                                    |
 */
export class Relay {
  readonly #table: OutboxTable;
  readonly #sender: MessageSender;
  readonly #relayAfterInMs: number;
  readonly #onError: (error: unknown) => void;
  readonly #retries = new Map<string, { readonly clock: Clock; readonly forInMs: number }>();
  /** Damaged rows are reported once. */
  readonly #damaged = new Recent<true>(1_000);

  constructor(table: OutboxTable, sender: MessageSender, relayAfterInMs: number, onError: (error: unknown) => void) {
    this.#table = table;
    this.#sender = sender;
    this.#relayAfterInMs = relayAfterInMs;
    this.#onError = onError;
  }

  /**
   * @param stopped - Ends it when the sends in flight have ended. The `abortSignal` cuts them off.
   * @throws what the table responds if the markers cannot be listed.
   */
  async pass(call: CallOptions, stopped?: AbortSignalLike): Promise<RelayResult> {
    const due = await this.#dueMarkers(call);
    const result = { sent: 0, failed: 0, isIncomplete: false };
    const isOver = (): boolean => isAborted(stopped) || isAborted(call.abortSignal);
    await inParallel(due, concurrency.markers, async (found) => {
      if (isOver()) return;
      try {
        const visit = await this.#visit(found, call, isOver);
        result.sent += visit.sent;
        result.failed += visit.failed;
        result.isIncomplete ||= visit.isIncomplete;
      } catch (error) {
        // The other markers go on.
        if (!isAborted(call.abortSignal)) this.#onError(error);
      }
    });
    return result;
  }

  /** Every message that is not sent yet, whichever process has committed it. */
  async *list(call: CallOptions): AsyncGenerator<MessageRow> {
    for await (const { rows } of this.#table.markers(call)) {
      for (const marker of this.#readable(rows, markerOf)) {
        for await (const page of this.#table.rows(marker, call)) {
          yield* this.#readable(page.rows, messageRowOf);
        }
      }
    }
  }

  async #dueMarkers(call: CallOptions): Promise<readonly FoundMarker[]> {
    const due: FoundMarker[] = [];
    const seen = new Set<string>();
    for await (const { rows, time } of this.#table.markers(call)) {
      const markers = this.#readable(rows, (entity, url) => ({ entity, marker: markerOf(entity, url) }));
      for (const { entity, marker } of markers) {
        seen.add(marker.id);
        if (this.#isRetryDue(marker) || time.isOlder(entity, Math.max(this.#relayAfterInMs, marker.waitInMs))) due.push({ marker, ageInMs: ageOf(marker, time) });
      }
    }
    for (const id of this.#retries.keys()) if (!seen.has(id)) this.#retries.delete(id);
    return due.sort((a, b) => (b.ageInMs ?? 0) - (a.ageInMs ?? 0));
  }

  #isRetryDue({ id }: StoredMarker): boolean {
    const retry = this.#retries.get(id);
    return retry !== undefined && retry.clock() >= retry.forInMs;
  }

  async #visit({ marker, ageInMs }: FoundMarker, call: CallOptions, isOver: () => boolean): Promise<Visit> {
    const visit: Visit = { sent: 0, failed: 0, kept: 0, young: 0, isIncomplete: false };
    const idleInMs = marker.idleInMs + (ageInMs ?? 0);
    const longer = (maxInMs: number): number => Math.min(maxInMs, Math.max(this.#relayAfterInMs, 2 * marker.waitInMs));
    let claim: { readonly etag: string; readonly clock: Clock } | undefined;
    for await (const { rows, time } of this.#table.rows(marker, call)) {
      if (rows.length === 0) continue;
      if (!claim) {
        const etag = await this.#table.writeVisit(marker, { waitInMs: this.#relayAfterInMs, idleInMs }, call);
        if (etag === undefined) return visit;
        claim = { etag, clock: startStopwatch() };
      }
      if (isOver() || claim.clock() >= this.#relayAfterInMs / 2) {
        // Before another relay takes its turn; and so that one partition does not keep the others waiting.
        visit.isIncomplete = !isOver();
        break;
      }
      await this.#sendRows(marker, rows, time, call, visit);
    }
    this.#plan(marker, visit);
    if (visit.isIncomplete || isOver()) return visit;
    if (!claim) {
      if (idleInMs >= abandonedAfterInMs) await this.#table.deleteMarker(marker, marker.etag, call);
      else await this.#table.writeVisit(marker, { waitInMs: longer(maxWaitInMs), idleInMs }, call);
    } else if (visit.kept > 0 && visit.young === 0 && longer(maxRetryInMs) > this.#relayAfterInMs) {
      await this.#table.writeVisit({ ...marker, etag: claim.etag }, { waitInMs: longer(maxRetryInMs), idleInMs }, call);
    }
    return visit;
  }

  async #sendRows(marker: StoredMarker, entities: readonly object[], time: ServiceTime, call: CallOptions, visit: Visit): Promise<void> {
    const old = entities.filter((entity) => time.isOlder(entity, this.#relayAfterInMs));
    const rows = this.#readable(old, (entity, url) => ({ ...messageRowOf(entity, url), ageInMs: Math.max(0, time.now - Date.parse(String((entity as { timestamp?: unknown }).timestamp))) || 0 }));
    const done: string[] = [];
    await inParallel(rows, concurrency.rows, async ({ ageInMs, ...row }) => {
      const elapsedInMs = startStopwatch();
      const unsent = await this.#sender.send(row, { relayed: true, ageInMs, abortSignal: call.abortSignal });
      visit.sent += row.messages.length - unsent.length;
      visit.failed += unsent.length;
      if (unsent.length === 0) done.push(row.rowKey);
      else if (unsent.length < row.messages.length) await this.#table.replaceRow(restOf(row, unsent, ageInMs + elapsedInMs()), call);
    });
    visit.young += entities.length - old.length;
    visit.kept += old.length - done.length;
    await this.#table.deleteRows(marker.partition, done, call);
  }

  /** When this relay visits the marker again, besides what is stored for all of them. */
  #plan({ id }: StoredMarker, { kept, young, isIncomplete }: Visit): void {
    const before = this.#retries.get(id)?.forInMs ?? 0;
    if (isIncomplete) this.#retries.set(id, { clock: startStopwatch(), forInMs: 0 });
    else if (kept + young > 0) this.#retries.set(id, { clock: startStopwatch(), forInMs: Math.min(maxRetryInMs, Math.max(this.#relayAfterInMs, 2 * before)) });
    else this.#retries.delete(id);
  }

  /** A row that cannot be read is reported, and the others go on. */
  #readable<R>(rows: readonly object[], parse: (row: object, url: string) => R): R[] {
    return rows.flatMap((row) => {
      try {
        return [parse(row, this.#table.url)];
      } catch (error) {
        const { partitionKey, rowKey } = row as { partitionKey?: unknown; rowKey?: unknown };
        this.#damaged.get(JSON.stringify([partitionKey, rowKey]), () => {
          this.#onError(error);
          return true;
        });
        return [];
      }
    });
  }
}

/** Undefined: a proxy has removed the header with the time of the service, or the row has none. */
function ageOf({ writtenAt }: StoredMarker, { certain }: ServiceTime): number | undefined {
  return certain === undefined || Number.isNaN(writtenAt) ? undefined : Math.max(0, certain - writtenAt);
}
