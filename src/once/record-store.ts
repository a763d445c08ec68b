import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { Deadline, RequestTimeoutError, throwIfAborted } from "../core/deadline.js";
import { readWithTries, request, tryLimitOf } from "../core/request.js";
import type { TryLimit } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { isNotFound } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import { createError, CommitUnknownError } from "../errors.js";
import { getOwnRow } from "../target/own-rows.js";
import { tableUrl } from "../target/stored-entity.js";
import { entityOf, recordOf } from "./once-record.js";
import type { NewRecord, OnceRecord, RecordPlace } from "./once-record.js";

/** What a read has found, and the time of the service at that moment. */
export interface FoundRecord {
  readonly record: OnceRecord | undefined;
  readonly serviceTime: number | undefined;
}

/** The limits of one request. */
export interface StoreRequest extends CallOptions {
  readonly abortSignal: AbortSignal;
  readonly tryTimeoutInMs: number;
}

/** The result of a write: the new ETag, or what another client has stored. */
export type RecordWrite = { readonly kind: "written"; readonly etag: string } | { readonly kind: "conflict"; readonly found: FoundRecord };

const releaseTimeoutInMs = 5_000;

/** The records of a table. */
export class RecordStore {
  readonly #table: TableLike;
  readonly url: string;

  constructor(table: TableLike) {
    this.#table = table;
    this.url = tableUrl(table);
  }

  get table(): TableLike {
    return this.#table;
  }

  async read({ partitionKey, rowKey }: RecordPlace, { abortSignal, tracingOptions, tryTimeoutInMs }: StoreRequest): Promise<FoundRecord> {
    return readWithTries(async (signal) => {
      let date: string | undefined;
      const serviceTime = (): number | undefined => (date === undefined || Number.isNaN(Date.parse(date)) ? undefined : Date.parse(date));
      try {
        const entity = await getOwnRow(this.#table, partitionKey, rowKey, {
          abortSignal: signal,
          ...(tracingOptions && { tracingOptions }),
          onResponse: ({ headers }) => (date = headers?.get("date") ?? undefined),
        });
        return { record: recordOf(entity, this.url), serviceTime: serviceTime() };
      } catch (error) {
        if (isNotFound(error)) return { record: undefined, serviceTime: serviceTime() };
        throw error;
      }
    }, { tryLimit: tryLimitOf(tryTimeoutInMs), abortSignal });
  }

  /**
   * Writes a record: creates it, or replaces the one with the ETag of `base`. A write whose response is lost is recognised by its id.
   * @throws {@link CommitUnknownError} if its outcome cannot be determined.
   */
  async write(place: RecordPlace, base: string | undefined, record: NewRecord, call: StoreRequest): Promise<RecordWrite> {
    const { abortSignal, tracingOptions, tryTimeoutInMs } = call;
    const writeId = crypto.randomUUID();
    const entity = entityOf(place, { ...record, writeId });
    const tryLimit: TryLimit = tryLimitOf(tryTimeoutInMs);
    const outcome = await resolveWrite<{ etag?: string | undefined }, FoundRecord>(
      {
        send: (signal) => {
          const options = { abortSignal: signal, ...(tracingOptions && { tracingOptions }) };
          return base === undefined ? this.#table.createEntity(entity, options) : this.#table.updateEntity(entity, "Replace", { ...options, etag: base });
        },
        readBack: () => this.read(place, call),
        recognise: ({ record: stored }) => {
          if (stored?.writeId === writeId) return "committed";
          if (stored?.etag === base) return "unchanged";
          // Deleted by an operator or a purge, before or after this write.
          return stored ? "not committed" : "unknown";
        },
        onConflict: () => 0,
      },
      { abortSignal, tryLimit },
    );
    switch (outcome.kind) {
      case "committed":
        return { kind: "written", etag: requireETag(outcome.value.etag, this.url) };
      case "recognised":
        return { kind: "written", etag: requireETag(outcome.found.record?.etag, this.url) };
      case "conflict":
        return { kind: "conflict", found: outcome.found ?? (await this.read(place, call)) };
      case "rejected":
        throw outcome.error;
      case "unknown": {
        const message = `The outcome of a write to a record of Once in ${this.url} is unknown: the request was sent, and it could not be determined whether it was committed.`;
        throw createError(CommitUnknownError, message, { url: this.url, attempts: 1, operationId: writeId, cause: outcome.error });
      }
    }
  }

  /** Deletes a record that is unchanged. Returns whether it did. A lost response of a delete cannot be told from a delete by another client. */
  async delete({ partitionKey, rowKey }: RecordPlace, etag: string, { abortSignal, tracingOptions }: CallOptions): Promise<boolean> {
    const sent = await request(
      (signal) => this.#table.deleteEntity(partitionKey, rowKey, { abortSignal: signal, ...(tracingOptions && { tracingOptions }), etag }),
      { timeoutInMs: releaseTimeoutInMs, abortSignal },
    );
    if (sent.kind !== "ok") throwIfAborted(abortSignal);
    return sent.kind === "ok" || (isNotFound(sent.error) && sent.sends > 1);
  }

  /** A claim may have been stored by a call that has given up. Best effort: it expires otherwise. */
  async releaseOwn(place: RecordPlace, owner: string): Promise<void> {
    const deadline = new Deadline(releaseTimeoutInMs, () => new RequestTimeoutError(releaseTimeoutInMs));
    const abortSignal = deadline.signal;
    try {
      const { record } = await this.read(place, { abortSignal, tryTimeoutInMs: releaseTimeoutInMs / 5 });
      if (record?.owner === owner && !record.outcome) await this.delete(place, record.etag, { abortSignal });
    } catch {
      // The claim expires.
    } finally {
      deadline.dispose();
    }
  }
}
