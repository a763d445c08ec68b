import type { ContainerLike } from "../clients/blob.js";
import type { CallOptions, PurgeResult } from "../clients/call.js";
import { linkSignals, throwIfAborted } from "../core/deadline.js";
import { sha256 } from "../core/identity.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { isConcurrencyError } from "../errors.js";
import { purgeTexts } from "../overflow/purge-texts.js";
import type { OldBlob } from "../overflow/purge-texts.js";
import { deleteText, readText, referenceTo, uploadText } from "../overflow/stored-text.js";
import type { ReadTextOptions } from "../overflow/stored-text.js";
import { hasCertainlyExpired } from "../queue/inbox/purge.js";
import { tableIdentityOf } from "../queue/inbox/record.js";
import type { RecordPlace } from "./once-record.js";
import type { BlobReference } from "./stored-result.js";
import type { RecordStore, StoreRequest } from "./record-store.js";
import { damagedResult } from "./stored-result.js";

/** The names of all blobs with results begin with this. */
export const resultPrefix = "asc-once/";

/** The metadata that says which record a blob belongs to: its partition key and row key, percent-encoded. */
const recordMetadata = "ascrecord";

/** A result may be stored, and its record be on its way, for so long: a purge does not delete it. */
const minAgeInMs = 3_600_000;

/**
 * Results that do not fit into their records. The blob is written first, then the record that refers to it by hash and size, so a record
 * never refers to a blob that was not written. The name of the blob is derived from record and hash: a run that is repeated with the same
 * result writes the same blob.
 *
 * Deleting is the other way round: first the record, then the blob, on the condition that it was not written since. A crash in between,
 * and a run whose result is not stored, leave a blob that no record refers to, for the purge.
 */
export class ResultBlobs {
  readonly #container: ContainerLike;
  readonly #prefix: string;

  constructor(container: ContainerLike, tableUrl: string) {
    this.#container = container;
    this.#prefix = `${resultPrefix}${tableIdentityOf(tableUrl).replace(":", "/")}/`;
  }

  /** Of the container. */
  get url(): string {
    return redactUrl(this.#container.url);
  }

  /** Writes a result. Repeating it does no harm. */
  async upload(place: RecordPlace, text: string, call: CallOptions): Promise<BlobReference> {
    const reference = await referenceTo(text);
    const blob = this.#container.getBlockBlobClient(await this.#nameOf(place, reference.sha256));
    const metadata = { [recordMetadata]: `${encodeURIComponent(place.partitionKey)}/${encodeURIComponent(place.rowKey)}` };
    const { etag } = await uploadText(blob, text, metadata, call);
    return { ...reference, etag };
  }

  /**
   * Reads a result. Undefined: its blob does not exist.
   * @throws {@link SchemaError} if another program has changed the blob.
   */
  async load(place: RecordPlace, reference: BlobReference, call: ReadTextOptions): Promise<string | undefined> {
    const blob = this.#container.getBlockBlobClient(await this.#nameOf(place, reference.sha256));
    const url = redactUrl(blob.url);
    const found = await readText(blob, reference, call);
    switch (found.kind) {
      case "found":
        return found.content;
      case "missing":
        return undefined;
      case "damaged":
        throw damagedResult(url, found.issue);
      case "unavailable":
        throwIfAborted(call.abortSignal);
        throw toConcurrencyError(found.error, url);
    }
  }

  /** After the record was deleted. Best effort: the purge deletes what is left. */
  async delete(place: RecordPlace, { sha256: hash, etag }: BlobReference, abortSignal: AbortSignal): Promise<void> {
    await deleteText({ blob: this.#container.getBlockBlobClient(await this.#nameOf(place, hash)), etag }, abortSignal);
  }

  /** Deletes blobs that no record refers to, and that were not written for `ageInMs`, by the clock of the service. */
  async purge(store: RecordStore, ageInMs: number, { abortSignal, tracingOptions }: CallOptions): Promise<PurgeResult> {
    const oldInMs = Math.max(ageInMs, minAgeInMs);
    const { controller, unlink } = linkSignals(abortSignal);
    const request: StoreRequest = { abortSignal: controller.signal, tracingOptions, tryTimeoutInMs: 30_000 };
    const mayDelete = (blob: OldBlob): Promise<boolean> => this.#isOrphan(store, blob, oldInMs, request);
    try {
      return await purgeTexts(this.#container, { prefix: this.#prefix, writtenBefore: Date.now() - oldInMs, mayDelete }, { abortSignal, tracingOptions });
    } finally {
      unlink();
    }
  }

  async #isOrphan(store: RecordStore, { name, lastModified, metadata }: OldBlob, oldInMs: number, call: StoreRequest): Promise<boolean> {
    const place = placeIn(metadata[recordMetadata]);
    const hash = name.slice(name.lastIndexOf("-") + 1);
    // Not written by the library, or changed since: an operator decides.
    if (!place || name !== (await this.#nameOf(place, hash))) return false;
    try {
      const { record, serviceTime = Date.now() } = await store.read(place, call);
      if (serviceTime - lastModified.getTime() < oldInMs) return false;
      if (!record) return true;
      if (!record.outcome) return hasCertainlyExpired(record, serviceTime);
      return record.outcome.kind !== "blob" || record.outcome.reference.sha256 !== hash;
    } catch (error) {
      if (isConcurrencyError(error, "SCHEMA")) return false;
      throw error;
    }
  }

  async #nameOf({ partitionKey, rowKey }: RecordPlace, hash: string): Promise<string> {
    return `${this.#prefix}${(await sha256(`${partitionKey}\n${rowKey}`)).slice(0, 32)}-${hash}`;
  }
}

function placeIn(text: string | undefined): RecordPlace | undefined {
  const parts = text?.split("/");
  if (parts?.length !== 2) return undefined;
  try {
    const [partitionKey = "", rowKey = ""] = parts.map(decodeURIComponent);
    return { partitionKey, rowKey };
  } catch {
    return undefined;
  }
}
