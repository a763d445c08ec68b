/** Clients that answer at once from memory, so that what is left of the time is the library's own. One record each. */
import type { BlockBlobLike, LeasableBlobLike, QueueLike, QueueMessageLike, TableLike } from "azure-storage-concurrency/clients";

import type { CounterBlob, CounterTable } from "./baseline.js";

/** A table that holds one entity under whatever keys it is asked for. */
export function fakeTable(): TableLike & CounterTable {
  const stored: Record<string, unknown> = { n: 0 };
  let version = 0;
  const etag = (): string => `W/"datetime'${version}'"`;
  const fake: Partial<TableLike> & Pick<TableLike, "url" | "tableName"> = {
    url: "http://127.0.0.1/fake",
    tableName: "counters",
    async getEntity(partitionKey, rowKey, options) {
      if (!options?.disableTypeConversion) return { ...stored, partitionKey, rowKey, etag: etag() };
      const journal = stored["asc_journal"] as string | undefined;
      const body = `{"PartitionKey":"${partitionKey}","RowKey":"${rowKey}","n":${stored["n"] as number},"asc_journal":"${journal ?? ""}"}`;
      options.onResponse?.({ bodyAsText: body });
      return {
        partitionKey,
        rowKey,
        etag: etag(),
        n: { type: "Int32", value: stored["n"] },
        ...(journal && { asc_journal: { type: "String", value: journal } }),
      };
    },
    async updateEntity({ n, asc_journal: journal }, _mode, options) {
      if (options?.etag !== etag()) throw Object.assign(new Error("race"), { statusCode: 412 });
      stored["n"] = typeof n === "object" ? (n as { value: unknown }).value : n;
      if (journal !== undefined) stored["asc_journal"] = journal;
      version++;
      return { etag: etag() };
    },
  };
  return fake as unknown as TableLike & CounterTable;
}

/** A blob. Blobs that are to look like those of one container are given the same pipeline. */
export function fakeBlob(name: string, pipeline: object = {}): BlockBlobLike & CounterBlob {
  let content = Buffer.from(`{"n":0}`);
  let metadata: Record<string, string> = {};
  let version = 0;
  const etag = (): string => `"0x${version}"`;
  const fake: Partial<BlockBlobLike> & { url: string; pipeline: object } = {
    url: `http://127.0.0.1/fake/counters/${name}`,
    pipeline,
    async download() {
      const body = (async function* () {
        yield content;
      })();
      return { etag: etag(), metadata, contentLength: content.length, contentType: "application/json", readableStreamBody: body };
    },
    async upload(body: Uint8Array | string, _length, options) {
      if (options?.conditions?.ifMatch !== etag()) throw Object.assign(new Error("race"), { statusCode: 412 });
      content = Buffer.from(body as Uint8Array);
      metadata = options.metadata ?? {};
      version++;
      return { etag: etag() };
    },
  };
  return fake as unknown as BlockBlobLike & CounterBlob;
}

/** A blob whose lease another client holds. */
export function heldLease(): LeasableBlobLike {
  const held = (): never => {
    throw Object.assign(new Error("held"), { statusCode: 409, code: "LeaseAlreadyPresent", name: "RestError" });
  };
  const fake = {
    url: "http://127.0.0.1/fake/locks/held",
    getBlobLeaseClient: (leaseId: string) => ({ leaseId, acquireLease: async () => held() }),
    getProperties: async () => ({ leaseState: "leased", leaseStatus: "locked" }),
  };
  return fake as unknown as LeasableBlobLike;
}

/** A queue. No message is ever delivered twice: none becomes visible again. */
export function fakeQueue(): QueueLike & { readonly length: number } {
  const waiting: QueueMessageLike[] = [];
  const received = new Set<string>();
  let ids = 0;
  const day = 86_400_000;
  const fake: Partial<QueueLike> & { readonly length: number } = {
    name: "jobs",
    url: "http://127.0.0.1/fake/jobs",
    get length() {
      return waiting.length + received.size;
    },
    async getProperties() {
      return { approximateMessagesCount: waiting.length };
    },
    async sendMessage(messageText) {
      const id = String(++ids);
      waiting.push({ messageId: id, popReceipt: id, messageText, insertedOn: new Date(), expiresOn: new Date(Date.now() + 7 * day), dequeueCount: 1 });
      return { messageId: id, popReceipt: id };
    },
    async receiveMessages(options) {
      const receivedMessageItems = waiting.splice(0, options?.numberOfMessages ?? 1);
      for (const { messageId } of receivedMessageItems) received.add(messageId);
      return { date: new Date(), receivedMessageItems };
    },
    async updateMessage(_id, popReceipt) {
      return { popReceipt };
    },
    async deleteMessage(messageId) {
      received.delete(messageId);
      return {};
    },
  };
  return fake as unknown as QueueLike & { readonly length: number };
}
