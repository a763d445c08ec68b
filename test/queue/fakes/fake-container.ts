import { createHash } from "node:crypto";
import { vi } from "vitest";

import type { BlobCallOptions, BlobDownloadLike, BlobItemLike, ContainerLike } from "../../../src/clients/blob.js";
import { notFaked } from "../../support/not-faked.js";
import { Faults, storageError } from "./faults.js";

interface Stored {
  content: Uint8Array;
  etag: string;
  lastModified: Date;
  metadata: Record<string, string>;
}

/** A container in memory, on the (fake) clock of the test, with what payloads of messages and large results need. */
export class FakeContainer {
  readonly url = "https://account.blob.example/payloads";
  readonly faults = new Faults();
  readonly blobs = new Map<string, Stored>();
  exists = true;
  /** Whether responses have an ETag: a proxy may remove it. */
  withETag = true;
  /** The ranges that were downloaded. */
  readonly counts: (number | undefined)[] = [];
  #etags = 0;

  get client(): ContainerLike {
    return this as unknown as ContainerLike;
  }

  get names(): string[] {
    return [...this.blobs.keys()];
  }

  put(name: string, text: string, metadata: Record<string, string> = {}): string {
    const etag = `"${++this.#etags}"`;
    this.blobs.set(name, { content: new TextEncoder().encode(text), etag, lastModified: new Date(), metadata });
    return etag;
  }

  getProperties(options: BlobCallOptions = {}): Promise<object> {
    return this.#request("container", options, () => ({}));
  }

  getBlockBlobClient(name: string): object {
    const find = (): Stored => {
      const blob = this.blobs.get(name);
      if (!blob) throw storageError(404, "BlobNotFound");
      return blob;
    };
    return {
      url: `${this.url}/${encodeURIComponent(name)}`,
      getProperties: notFaked,
      upload: (body: Uint8Array, _length: number, options: BlobCallOptions & { metadata?: Record<string, string> }) =>
        this.#request("upload", options, () => {
          if (options.conditions?.ifNoneMatch === "*" && this.blobs.has(name)) throw storageError(409, "BlobAlreadyExists");
          const etag = this.put(name, new TextDecoder("utf-8", { ignoreBOM: true }).decode(body), options.metadata);
          return this.withETag ? { etag } : {};
        }),
      download: (offset: number, count: number | undefined, options: BlobCallOptions) =>
        this.#request("download", options, (): BlobDownloadLike => {
          this.counts.push(count);
          const { content, etag } = find();
          if (content.byteLength === 0) throw storageError(416, "InvalidRange");
          const range = content.slice(offset, count === undefined ? undefined : offset + count);
          return { contentLength: range.byteLength, readableStreamBody: [range], ...(this.withETag && { etag }) };
        }),
      delete: (options: BlobCallOptions) =>
        this.#request("delete", options, () => {
          const ifMatch = options.conditions?.ifMatch;
          if (find().etag !== (ifMatch ?? find().etag)) throw storageError(412, "ConditionNotMet");
          this.blobs.delete(name);
          return {};
        }),
    };
  }

  async *listBlobsFlat({ prefix = "", includeMetadata = false, ...options }: BlobCallOptions & { prefix?: string; includeMetadata?: boolean }): AsyncGenerator<BlobItemLike> {
    const items = await this.#request("list", options, () => [...this.blobs].filter(([name]) => name.startsWith(prefix)));
    for (const [name, { etag, lastModified, metadata }] of items) yield { name, properties: { etag: etag.replaceAll('"', ""), lastModified }, ...(includeMetadata && { metadata }) };
  }

  #request<R>(kind: string, { abortSignal }: BlobCallOptions, act: () => R): Promise<R> {
    return this.faults.request(kind, abortSignal, () => {
      if (!this.exists) throw storageError(404, "ContainerNotFound");
      return act();
    });
  }
}

/** Hashes at once: the hash of the platform comes from a thread, for which fake timers do not wait. */
export function hashAtOnce(): void {
  vi.spyOn(crypto.subtle, "digest").mockImplementation((_algorithm, data) => {
    const { buffer, byteOffset, byteLength } = createHash("sha256").update(new Uint8Array(data as ArrayBuffer)).digest();
    return Promise.resolve((buffer).slice(byteOffset, byteOffset + byteLength));
  });
}
