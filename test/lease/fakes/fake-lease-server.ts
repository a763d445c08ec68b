import { notFaked } from "../../support/not-faked.js";
import type { AppendBlobLike, BlobCallOptions, LeasableBlobLike, BlobUploadOptions, BlockBlobLike, LeaseResponseLike, LeaseCallOptions, ContainerLike } from "../../../src/clients/blob.js";
import { after, give, ok, restError, status } from "./answers.js";
import type { Answer } from "./answers.js";
import { elapsed } from "./time.js";

export type BlobClient = LeasableBlobLike & BlockBlobLike;
type Operation = "acquire" | "renew" | "change" | "release" | "break" | "properties" | "metadata" | "create" | "append" | "delete" | "list";

interface Blob {
  etag: number;
  metadata: Record<string, string>;
  lastModified: Date;
  /** Of an append blob: how many blocks were appended. */
  blocks: number;
  lease: { id: string; durationInMs: number; ends: number; breaking: boolean } | undefined;
  /** How the last lease ended, if not by a release. */
  broken: boolean;
}

/** A storage service as far as leases and locks go: its state machine on the fake clock, every request takes 1 ms. */
export class FakeLeaseServer {
  readonly requests: { operation: Operation; blob: string; at: number; leaseId: string | undefined; tracing: unknown }[] = [];
  readonly blobs = new Map<string, Blob>();
  /** Answers instead of the service, which then does nothing. */
  intercept: ((operation: Operation, blob: string) => Answer | undefined) | undefined;
  /** Changes what a request is answered with after it had its effect. */
  disturb: ((operation: Operation, blob: string) => Answer | undefined) | undefined;
  latencyInMs = 1;
  /** No two blobs ever have the same ETag, not even two that have the same name one after the other. */
  #etags = 0;

  count(operation?: Operation, blob?: string): number {
    return this.requests.filter((request) => (operation === undefined || request.operation === operation) && (blob === undefined || request.blob === blob)).length;
  }

  /** A client with rights of its own, as another process has: nothing is shared with other owners. */
  container(): ContainerLike {
    const pipeline = {};
    // One client for each blob: clients with methods of their own share nothing with others.
    const clients = new Map<string, BlobClient>();
    return {
      url: "https://account.test/container",
      getBlockBlobClient: (name) => {
        const client = clients.get(name) ?? this.#client(name, pipeline);
        clients.set(name, client);
        return client;
      },
      getAppendBlobClient: (name) => this.#appendClient(name, pipeline),
      setMetadata: notFaked,
      getAccessPolicy: notFaked,
      setAccessPolicy: notFaked,
      getBlobLeaseClient: notFaked,
      getProperties: notFaked,
      listBlobsFlat: (options) => this.#list(options?.prefix ?? "", options?.abortSignal),
    };
  }

  blob(name = "blob"): BlobClient {
    return this.container().getBlockBlobClient(name);
  }

  addBlob(name = "blob"): Blob {
    const blob: Blob = { etag: 0, metadata: {}, lastModified: new Date(0), blocks: 0, lease: undefined, broken: false };
    this.#changed(blob);
    this.blobs.set(name, blob);
    return blob;
  }

  /** A foreign program replaces the metadata, whoever holds the lease. */
  replaceMetadata(name: string, metadata: Record<string, string>): void {
    const blob = this.blobs.get(name);
    if (!blob) throw new Error(`no blob ${name}`);
    blob.metadata = metadata;
    this.#changed(blob);
  }

  #changed(blob: Blob): string {
    blob.etag = ++this.#etags;
    // Rounded down to a second, as the service does.
    blob.lastModified = new Date(Math.floor(Date.now() / 1_000) * 1_000);
    return String(blob.etag);
  }

  /** Whether somebody holds the lease at this moment. */
  isLeased(name = "blob"): boolean {
    const blob = this.blobs.get(name);
    return blob !== undefined && stateOf(blob) === "leased";
  }

  #client(name: string, pipeline: object): BlobClient {
    const refused = (): Promise<never> => Promise.reject(new Error("not part of this fake"));
    return {
      url: `https://account.test/container/${name}`,
      ...{ pipeline },
      getBlobLeaseClient: (id = "") => ({
        acquireLease: (duration, options) => this.#request("acquire", name, options, id, (blob) => acquire(blob, id, duration)),
        renewLease: (options) => this.#request("renew", name, options, id, (blob) => renew(blob, id)),
        changeLease: (proposed, options) => this.#request("change", name, options, id, (blob) => change(blob, id, proposed)),
        releaseLease: (options) => this.#request("release", name, options, id, (blob) => release(blob, id)),
        breakLease: (period, options) => this.#request("break", name, options, undefined, (blob) => breakIt(blob, period, options)),
      }),
      getProperties: (options?: BlobCallOptions) =>
        this.#request("properties", name, options, options?.conditions?.leaseId, (blob) => {
          checkLease(blob, options?.conditions?.leaseId, false);
          return { etag: String(blob.etag), lastModified: blob.lastModified, metadata: { ...blob.metadata }, ...describe(blob) };
        }),
      setMetadata: (metadata, options) =>
        this.#request("metadata", name, options, options?.conditions?.leaseId, (blob) => {
          checkLease(blob, options?.conditions?.leaseId, true);
          const { ifMatch } = options?.conditions ?? {};
          if (ifMatch !== undefined && ifMatch !== String(blob.etag)) throw refusal(412, "ConditionNotMet");
          blob.metadata = { ...metadata };
          return { etag: this.#changed(blob) };
        }),
      upload: (_body: Uint8Array, _length: number, options?: BlobUploadOptions) =>
        this.#request("create", name, options, undefined, () => {
          if (this.blobs.has(name)) throw refusal(409, "BlobAlreadyExists");
          const blob = this.addBlob(name);
          blob.metadata = { ...options?.metadata };
          return { etag: String(blob.etag) };
        }),
      delete: (options) =>
        this.#request("delete", name, options, options?.conditions?.leaseId, (blob) => {
          checkLease(blob, options?.conditions?.leaseId, true);
          this.blobs.delete(name);
        }),
      download: refused,
      setHTTPHeaders: refused,
      getTags: refused,
      setTags: refused,
    };
  }

  #appendClient(name: string, pipeline: object): AppendBlobLike {
    const refused = (): Promise<never> => Promise.reject(new Error("not part of this fake"));
    return {
      url: `https://account.test/container/${name}`,
      ...{ pipeline },
      getProperties: (options) =>
        this.#request("properties", name, options, undefined, ({ etag, blocks }) => ({ etag: String(etag), blobCommittedBlockCount: blocks })),
      create: (options) =>
        this.#request("create", name, options, undefined, () => {
          if (this.blobs.has(name)) throw refusal(409, "BlobAlreadyExists");
          return { etag: String(this.addBlob(name).etag) };
        }),
      appendBlock: (_body, _length, options) =>
        this.#request("append", name, options, undefined, (blob) => {
          if (blob.blocks >= 50_000) throw refusal(409, "BlockCountExceedsLimit");
          return { blobCommittedBlockCount: ++blob.blocks, etag: this.#changed(blob) };
        }),
      setMetadata: refused,
      download: refused,
    };
  }

  async *#list(prefix: string, abortSignal: AbortSignal | undefined): ReturnType<ContainerLike["listBlobsFlat"]> & AsyncGenerator {
    this.requests.push({ operation: "list", blob: prefix, at: elapsed(), leaseId: undefined, tracing: undefined });
    await give(this.intercept?.("list", prefix) ?? after(this.latencyInMs, ok), abortSignal, () => undefined);
    for (const [name, blob] of [...this.blobs].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (name.startsWith(prefix)) yield { name, metadata: { ...blob.metadata }, properties: describe(blob) };
    }
  }

  async #request<R>(
    operation: Operation,
    name: string,
    options: LeaseCallOptions | undefined,
    leaseId: string | undefined,
    effect: (blob: Blob) => R,
  ): Promise<R> {
    this.requests.push({ operation, blob: name, at: elapsed(), leaseId, tracing: options?.tracingOptions });
    const intercepted = this.intercept?.(operation, name);
    if (intercepted) return give(intercepted, options?.abortSignal, () => ({}) as R);
    // The effect comes first, the answer later: whoever aborts in between does not know.
    let outcome: { result: R } | { error: Error };
    try {
      const blob = this.blobs.get(name);
      if (!blob && operation !== "create") throw refusal(404, "BlobNotFound");
      if (blob && options?.conditions?.ifNoneMatch === String(blob.etag)) throw refusal(412, "ConditionNotMet");
      outcome = { result: effect(blob as Blob) };
    } catch (error) {
      outcome = { error: error as Error };
    }
    return give(this.disturb?.(operation, name) ?? after(this.latencyInMs, ok), options?.abortSignal, () => {
      if ("error" in outcome) throw outcome.error;
      return outcome.result;
    });
  }
}

function refusal(statusCode: number, code: string): Error {
  return restError(status(statusCode, code));
}

type State = "available" | "leased" | "expired" | "breaking" | "broken";

function stateOf(blob: Blob): State {
  if (!blob.lease) return blob.broken ? "broken" : "available";
  if (elapsed() >= blob.lease.ends) return blob.lease.breaking ? "broken" : "expired";
  return blob.lease.breaking ? "breaking" : "leased";
}

function describe(blob: Blob): { leaseState: State; leaseDuration: string | undefined } {
  const state = stateOf(blob);
  return { leaseState: state, leaseDuration: state === "leased" ? (blob.lease?.durationInMs === Infinity ? "infinite" : "fixed") : undefined };
}

function acquire(blob: Blob, id: string, duration: number): LeaseResponseLike {
  const state = stateOf(blob);
  if (state === "breaking") throw refusal(409, "LeaseIsBreakingAndCannotBeAcquired");
  if (state === "leased" && blob.lease?.id !== id) throw refusal(409, "LeaseAlreadyPresent");
  const durationInMs = duration === -1 ? Infinity : duration * 1_000;
  blob.lease = { id, durationInMs, ends: elapsed() + durationInMs, breaking: false };
  blob.broken = false;
  return { leaseId: id, etag: String(blob.etag) };
}

function renew(blob: Blob, id: string): LeaseResponseLike {
  if (blob.lease?.id !== id) throw refusal(409, "LeaseIdMismatchWithLeaseOperation");
  if (blob.lease.breaking) throw refusal(409, "LeaseIsBrokenAndCannotBeRenewed");
  blob.lease.ends = elapsed() + blob.lease.durationInMs;
  return { leaseId: id, etag: String(blob.etag) };
}

function change(blob: Blob, id: string, proposed: string): LeaseResponseLike {
  if (stateOf(blob) === "breaking") throw refusal(409, "LeaseIsBreakingAndCannotBeChanged");
  if (stateOf(blob) !== "leased" || blob.lease?.id !== id) throw refusal(409, "LeaseIdMismatchWithLeaseOperation");
  blob.lease.id = proposed;
  return { leaseId: proposed, etag: String(blob.etag) };
}

function release(blob: Blob, id: string): LeaseResponseLike {
  if (blob.lease?.id !== id) throw refusal(409, "LeaseIdMismatchWithLeaseOperation");
  blob.lease = undefined;
  return { etag: String(blob.etag) };
}

function breakIt(blob: Blob, period: number, options: LeaseCallOptions | undefined): LeaseResponseLike {
  if (options?.conditions?.ifMatch !== undefined && options.conditions.ifMatch !== String(blob.etag)) throw refusal(412, "ConditionNotMet");
  if (!blob.lease) throw refusal(409, "LeaseNotPresentWithLeaseOperation");
  blob.lease.breaking = true;
  blob.lease.ends = Math.min(blob.lease.ends, elapsed() + period * 1_000);
  return { leaseTime: period };
}

function checkLease(blob: Blob, id: string | undefined, write: boolean): void {
  const state = stateOf(blob);
  const held = state === "leased" || state === "breaking";
  if (id !== undefined && !held) throw refusal(412, "LeaseLostWithBlobOperation");
  if (id !== undefined && blob.lease?.id !== id) throw refusal(412, "LeaseIdMismatchWithBlobOperation");
  if (id === undefined && write && held) throw refusal(412, "LeaseIdMissing");
}
