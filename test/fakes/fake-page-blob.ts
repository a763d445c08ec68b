import type { BlobCallOptions, BlobConditions, PageWriteOptions } from "../../src/clients.js";
import type { PageBlobLike } from "../../src/index.js";
import type { FakeService } from "./fake-service.js";
import { blobError, headError } from "./rest-errors.js";

interface StoredPages {
  content: Uint8Array;
  number: number;
  etag: string;
}

/** A page blob in memory, of 16 KiB unless the test says otherwise, behind a client as the SDK's. */
export class FakePageBlob implements PageBlobLike {
  readonly url = "https://account.blob.core.windows.net/disks/disk.vhd";
  readonly service: FakeService;

  constructor(service: FakeService, sizeInBytes = 16 * 1024) {
    this.service = service;
    if (!this.stored) this.#store({ content: new Uint8Array(sizeInBytes), number: 0 });
  }

  get stored(): StoredPages | undefined {
    return this.service.resources.get(this.url) as StoredPages | undefined;
  }

  /** Another client deletes the blob and creates it again, or restores an older version of it. */
  recreate(number = 0): void {
    this.#store({ content: new Uint8Array(this.stored?.content.length ?? 0), number });
  }

  /** The first byte of each page. */
  get pages(): number[] {
    return Array.from({ length: 32 }, (_, page) => this.stored?.content[page * 512] ?? -1);
  }

  getProperties(options: BlobCallOptions = {}): Promise<{ etag: string; blobSequenceNumber: number }> {
    return this.#request("getProperties", "read", options, headError, () => {
      const { etag, number } = this.#checked(options.conditions, headError);
      return { etag, blobSequenceNumber: number };
    });
  }

  updateSequenceNumber(
    action: "increment" | "max" | "update",
    value?: number,
    options: BlobCallOptions = {},
  ): Promise<{ etag: string; blobSequenceNumber: number }> {
    return this.#request("updateSequenceNumber", "write", options, blobError, () => {
      const pages = this.#checked(options.conditions, blobError);
      const number = action === "increment" ? pages.number + 1 : action === "max" ? Math.max(pages.number, value ?? 0) : (value ?? 0);
      return { ...this.#store({ ...pages, number }), blobSequenceNumber: number };
    });
  }

  uploadPages(body: Uint8Array, offset: number, count: number, options: PageWriteOptions = {}): Promise<{ etag: string }> {
    return this.#write("uploadPages", body.slice(0, count), offset, options);
  }

  clearPages(offset = 0, count = 0, options: PageWriteOptions = {}): Promise<{ etag: string }> {
    return this.#write("clearPages", new Uint8Array(count), offset, options);
  }

  #write(operation: string, bytes: Uint8Array, offset: number, options: PageWriteOptions): Promise<{ etag: string }> {
    return this.#request(operation, "write", options, blobError, () => {
      const pages = this.#checked(options.conditions, blobError);
      const { ifSequenceNumberEqualTo } = options.conditions ?? {};
      if (ifSequenceNumberEqualTo !== undefined && ifSequenceNumberEqualTo !== pages.number) throw blobError(412, "SequenceNumberConditionNotMet");
      const content = pages.content.slice();
      content.set(bytes, offset);
      return this.#store({ ...pages, content });
    });
  }

  #request<R>(operation: string, kind: "read" | "write", options: BlobCallOptions, error: typeof blobError, serve: () => R): Promise<R> {
    return this.service.request({ operation, kind, resource: this.url }, options.abortSignal, error, serve);
  }

  #checked(conditions: BlobConditions | undefined, error: typeof blobError): StoredPages {
    const pages = this.stored;
    if (!pages) throw error(404, "BlobNotFound");
    if (conditions?.ifMatch !== undefined && conditions.ifMatch !== pages.etag) throw error(412, "ConditionNotMet");
    return pages;
  }

  #store(pages: Omit<StoredPages, "etag">): { etag: string } {
    const etag = `"0x8D${this.service.newETag().toString(16).toUpperCase().padStart(12, "0")}"`;
    this.service.resources.set(this.url, { ...pages, etag });
    return { etag };
  }
}
