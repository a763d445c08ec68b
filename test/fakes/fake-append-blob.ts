import type { AppendBlobPropertiesLike, AppendBlockOptions, BlobCallOptions, BlobConditions, BlobDownloadLike } from "../../src/clients.js";
import type { AppendBlobLike } from "../../src/index.js";
import type { FakeService } from "./fake-service.js";
import { blobError, headError } from "./rest-errors.js";

interface StoredLog {
  content: Uint8Array;
  blocks: number;
  etag: string;
  lastModified?: Date;
  metadata: Record<string, string>;
  contentType: string | undefined;
  leaseId: string | undefined;
  createdOn?: Date;
}

/** An append blob in memory, behind a client as the SDK's. Several clients of one URL see the same blob. */
export class FakeAppendBlob implements AppendBlobLike {
  readonly url: string;
  readonly pipeline: object;
  readonly service: FakeService;
  readonly blobType: string = "AppendBlob";

  constructor(service: FakeService, options: { url?: string; pipeline?: object } = {}) {
    this.service = service;
    this.url = options.url ?? "https://account.blob.core.windows.net/logs/audit.log";
    this.pipeline = options.pipeline ?? service.pipeline;
  }

  /** What is stored, as a test looks at it: no request, no log. */
  get stored(): StoredLog | undefined {
    return this.service.resources.get(this.url) as StoredLog | undefined;
  }

  get text(): string {
    return Buffer.from(this.stored?.content ?? []).toString();
  }

  /** A foreign writer's create. */
  put(text = "", rest: Partial<StoredLog> = {}): void {
    const content = new Uint8Array(Buffer.from(text));
    this.#store({ content, blocks: text === "" ? 0 : 1, metadata: {}, contentType: undefined, leaseId: undefined, ...rest });
  }

  /** A foreign writer that appends without any condition. */
  appendForeign(text: string): void {
    const log = this.#checked(undefined, blobError);
    this.#store({ ...log, content: Buffer.concat([log.content, Buffer.from(text)]), blocks: log.blocks + 1 });
  }

  /** A foreign writer's Set Metadata. */
  putMetadata(metadata: Record<string, string>): void {
    this.#store({ ...this.#checked(undefined, blobError), metadata });
  }

  drop(): void {
    this.service.resources.delete(this.url);
  }

  create(options: BlobCallOptions & { blobHTTPHeaders?: { blobContentType?: string }; metadata?: Record<string, string> } = {}): Promise<{ etag?: string }> {
    return this.#request("create", "write", options, blobError, () => {
      if (this.stored && options.conditions?.ifNoneMatch === "*") {
        if (this.stored.leaseId !== undefined && options.conditions.leaseId === undefined) throw blobError(412, "LeaseIdMissing");
        if (this.stored.leaseId === undefined) throw blobError(409, "BlobAlreadyExists");
      }
      const { metadata = {}, blobHTTPHeaders } = options;
      return this.#store({ content: new Uint8Array(), blocks: 0, metadata, contentType: blobHTTPHeaders?.blobContentType, leaseId: undefined });
    });
  }

  getProperties(options: BlobCallOptions = {}): Promise<AppendBlobPropertiesLike> {
    return this.#request("getProperties", "read", options, headError, () => {
      const { etag, content, blocks, createdOn, metadata } = this.#checked(options.conditions, headError);
      return { etag, contentLength: content.length, blobCommittedBlockCount: blocks, createdOn, metadata: { ...metadata }, blobType: this.blobType };
    });
  }

  setMetadata(metadata: Record<string, string> = {}, options: BlobCallOptions = {}): Promise<{ etag?: string }> {
    return this.#request("setMetadata", "write", options, blobError, () =>
      this.#store({ ...this.#checked(options.conditions, blobError, "write"), metadata: { ...metadata } }),
    );
  }

  download(offset = 0, count?: number, options: BlobCallOptions = {}): Promise<BlobDownloadLike> {
    return this.#request("download", "read", options, blobError, () => {
      const { content, etag, blocks, createdOn = new Date(0), metadata } = this.#checked(options.conditions, blobError);
      if (count !== undefined && offset >= content.length) throw blobError(416, "InvalidRange");
      const part = content.slice(offset, count === undefined ? undefined : offset + count);
      return {
        etag,
        blobType: this.blobType,
        createdOn,
        blobCommittedBlockCount: blocks,
        metadata: { ...metadata },
        contentLength: part.length,
        ...(count !== undefined && { contentRange: `bytes ${offset}-${offset + part.length - 1}/${content.length}` }),
        readableStreamBody: [part],
      };
    });
  }

  appendBlock(body: Uint8Array, contentLength: number, options: AppendBlockOptions = {}): Promise<{ etag?: string; blobCommittedBlockCount: number }> {
    const bytes = new Uint8Array(body.subarray(0, contentLength));
    return this.#request("appendBlock", "write", options, blobError, () => {
      const log = this.#checked(options.conditions, blobError, "write");
      const { appendPosition } = options.conditions ?? {};
      if (appendPosition !== undefined && appendPosition !== log.content.length) throw blobError(412, "AppendPositionConditionNotMet");
      if (log.blocks >= 50_000) throw blobError(409, "BlockCountExceedsLimit");
      const blocks = log.blocks + 1;
      return { ...this.#store({ ...log, content: Buffer.concat([log.content, bytes]), blocks }), blobCommittedBlockCount: blocks };
    });
  }

  #request<R>(
    operation: string,
    kind: "read" | "write",
    options: BlobCallOptions,
    error: typeof blobError,
    serve: () => R,
  ): Promise<R> {
    return this.service.request({ operation, kind, resource: this.url }, options.abortSignal, error, serve);
  }

  #checked(conditions: BlobConditions | undefined, error: typeof blobError, access: "read" | "write" = "read"): StoredLog {
    const log = this.stored;
    if (!log) throw error(404, "BlobNotFound");
    const { ifMatch, leaseId } = conditions ?? {};
    if (ifMatch !== undefined && ifMatch !== log.etag) throw error(412, "ConditionNotMet");
    if (access === "write" && log.leaseId !== undefined && leaseId === undefined) throw error(412, "LeaseIdMissing");
    if (leaseId !== undefined && leaseId !== log.leaseId) throw error(412, "LeaseIdMismatchWithBlobOperation");
    return log;
  }

  #store(log: Omit<StoredLog, "etag">): { etag: string } {
    const etag = `"0x8D${this.service.newETag().toString(16).toUpperCase().padStart(12, "0")}"`;
    this.service.resources.set(this.url, { ...log, etag, lastModified: new Date(this.service.timestamp()) });
    return { etag };
  }
}
