import type { AbortSignalLike, AdapterRequest, CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { iterate } from "../core/iterate.js";
import { check, read } from "../core/request.js";
import { fullJitter, retry } from "../core/retry.js";
import { isConflict, isNotFound, isParentNotFound, isTransient } from "../core/storage-errors.js";
import { createError, TargetNotFoundError } from "../errors.js";
import { quoted, ServiceTime } from "../target/library-rows.js";
import { ownRowPages, getOwnRow } from "../target/own-rows.js";
import { tableUrl } from "../target/stored-entity.js";
import { markerEntity, markerPartition, markerRowKey, messageEntity, messageRowRange } from "./outbox-rows.js";
import type { Marker, MessageRow, StoredMarker } from "./outbox-rows.js";

/** Longer than most responses of a busy service take, shorter than the SDK's own retries. */
const requestTimeoutInMs = 10_000;
/** How often a write that does no harm twice is sent. */
const maxAttempts = 4;
/** The maximum number of operations in an entity group transaction. */
export const maxOperations = 100;

/** Rows as they were found, with the time of the service at that moment. */
export interface FoundPage {
  readonly rows: readonly object[];
  readonly time: ServiceTime;
}

/** The rows of the outbox in its table. Every write is one that does no harm if it is repeated, or arrives late. */
export class OutboxTable {
  readonly #table: TableLike;
  readonly url: string;

  constructor(table: TableLike) {
    this.#table = table;
    this.url = tableUrl(table);
  }

  isSame(table: TableLike): boolean {
    return tableUrl(table) === this.url;
  }

  async checkExists(request: AdapterRequest): Promise<void> {
    try {
      await check(this.url, (options) => getOwnRow(this.#table, markerPartition, markerPartition, options), request);
    } catch (error) {
      if (isNotFound(error)) return;
      throw this.#missingTable(error) ?? error;
    }
  }

  /** Stores markers, or makes them new. 100 at most. */
  async putMarkers(markers: readonly Marker[]): Promise<void> {
    const [first, ...others] = markers.map((marker) => markerEntity(marker));
    if (!first) return;
    const actions = [first, ...others].map((entity) => ["upsert", entity, "Replace"] as never);
    await repeated<unknown>((abortSignal) => (others.length === 0 ? this.#table.upsertEntity(first, "Replace", { abortSignal }) : this.#table.submitTransaction(actions, { abortSignal })));
  }

  /**
   * Lets one of several relays visit a marker, or says when the next visit is due. Undefined: another one was faster, or the process of the
   * marker has written or deleted it. A write whose response is lost counts as not made: the next visit is due `waitInMs` later.
   */
  async writeVisit(marker: Pick<StoredMarker, "id" | "partition" | "etag">, visited: Pick<StoredMarker, "waitInMs" | "idleInMs">, { abortSignal }: CallOptions): Promise<string | undefined> {
    try {
      const { etag } = await read((signal) => this.#table.updateEntity(markerEntity(marker, visited), "Replace", { etag: marker.etag, abortSignal: signal }), { abortSignal, timeoutInMs: requestTimeoutInMs });
      return etag;
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** On the condition that its process has not written it since. */
  async deleteMarker(marker: Marker, etag: string, { abortSignal }: CallOptions): Promise<void> {
    try {
      await read((signal) => this.#table.deleteEntity(markerPartition, markerRowKey(marker), { etag, abortSignal: signal }), { abortSignal, timeoutInMs: requestTimeoutInMs });
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
  }

  markers(call: CallOptions): AsyncIterable<FoundPage> {
    return this.#pages(`PartitionKey eq ${quoted(markerPartition)} and RowKey ge ${quoted(markerRowKey({ id: "", partition: "" }))}`, call);
  }

  /** The rows of a marker, in order. */
  rows(marker: Marker, call: CallOptions): AsyncIterable<FoundPage> {
    const [from, to] = messageRowRange(marker);
    return this.#pages(`PartitionKey eq ${quoted(marker.partition)} and RowKey ge ${quoted(from)} and RowKey lt ${quoted(to)}`, call, maxOperations);
  }

  async *#pages(filter: string, { abortSignal, tracingOptions }: CallOptions, maxPageSize?: number): AsyncGenerator<FoundPage> {
    const time = new ServiceTime();
    const query = { queryOptions: { filter }, onResponse: time.onResponse, ...(tracingOptions && { tracingOptions }) };
    const open = (signal: AbortSignal): AsyncIterable<readonly object[]> => ownRowPages(this.#table, { ...query, abortSignal: signal }, maxPageSize);
    try {
      for await (const rows of iterate(open, { abortSignal, timeoutInMs: 3 * requestTimeoutInMs })) yield { rows, time };
    } catch (error) {
      throw this.#missingTable(error) ?? error;
    }
  }

  #missingTable(error: unknown): TargetNotFoundError | undefined {
    if (!isParentNotFound(error)) return undefined;
    return createError(TargetNotFoundError, `The table ${this.url} of the outbox does not exist. Create it, or check its name.`, { url: this.url, cause: error });
  }

  /** What is left to send of a row. Another process may have sent it and deleted the row: then it stays deleted. */
  async replaceRow(row: MessageRow, { abortSignal }: CallOptions): Promise<void> {
    try {
      await repeated((signal) => this.#table.updateEntity(messageEntity(row), "Replace", { etag: "*", abortSignal: signal }), abortSignal);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** Deletes rows that no process needs any more; 100 at most. Those that do not exist any more count as deleted. */
  async deleteRows(partitionKey: string, rowKeys: readonly string[], { abortSignal }: CallOptions): Promise<void> {
    const [first, ...others] = rowKeys;
    if (first === undefined) return;
    try {
      const actions = rowKeys.map((rowKey) => ["delete", { partitionKey, rowKey }] as never);
      const send = (signal: AbortSignal): Promise<unknown> => (others.length === 0 ? this.#table.deleteEntity(partitionKey, first, { abortSignal: signal }) : this.#table.submitTransaction(actions, { abortSignal: signal }));
      await repeated(send, abortSignal);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // One of them is deleted, by another relay, or by this request, whose first response was lost: then none of them was deleted, or all.
      if (others.length > 0) await Promise.all(rowKeys.map((rowKey) => this.deleteRows(partitionKey, [rowKey], { abortSignal })));
    }
  }
}

function repeated<R>(send: (abortSignal: AbortSignal) => Promise<R>, abortSignal?: AbortSignalLike): Promise<R> {
  const attempt = (): Promise<R> => read(send, { timeoutInMs: requestTimeoutInMs, abortSignal });
  return retry(attempt, { maxAttempts, shouldRetry: isTransient, backoff: (failed) => fullJitter(failed - 1, 50, 2_000), abortSignal });
}
