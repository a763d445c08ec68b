import { notFaked } from "../../support/not-faked.js";
import type { BlobCallOptions, BlobItemLike, BlobPropertiesLike, LeaseCallOptions, LeaseClientLike, LeasePropertiesLike, LeaseResponseLike } from "../../../src/clients.js";
import type { ContainerLike } from "../../../src/index.js";
import { applyLease, isLocked, leaseAt, neverLeased } from "../../../src/testing/file-share/lease-machine.js";
import type { Lease, LeaseRequest } from "../../../src/testing/file-share/lease-machine.js";
import { FakeAppendBlob } from "../../fakes/fake-append-blob.js";
import { FakeBlockBlob } from "../../fakes/fake-block-blob.js";
import type { StoredBlob } from "../../fakes/fake-block-blob.js";
import { blobError } from "../../fakes/rest-errors.js";
import type { Link } from "./link.js";

const containerUrl = "https://account.blob.core.windows.net/docs";

/** A blob whose lease runs on the virtual clock. The lease of a blob goes through the same states as that of a share. */
export class SimBlob extends FakeBlockBlob {
  readonly #link: Link;

  constructor(link: Link, name: string) {
    super(link, { url: `${containerUrl}/${name}` });
    this.#link = link;
  }

  get lease(): Lease {
    const { resources, time } = this.#link.backend;
    return leaseAt((resources.get(this.#leaseKey) as Lease | undefined) ?? neverLeased, time.now);
  }

  override get stored(): StoredBlob | undefined {
    const blob = super.stored;
    if (blob) blob.leaseId = isLocked(this.lease) ? this.lease.id : undefined;
    return blob;
  }

  override getProperties(options: BlobCallOptions = {}): Promise<BlobPropertiesLike & LeasePropertiesLike> {
    return super.getProperties(options);
  }

  override drop(): void {
    super.drop();
    this.#link.backend.resources.delete(this.#leaseKey);
  }

  override leaseProperties(): { leaseState: string; leaseDuration: string } {
    const { state, durationInSeconds } = this.lease;
    return { leaseState: state, leaseDuration: durationInSeconds === -1 ? "infinite" : "fixed" };
  }

  override getBlobLeaseClient(id = ""): LeaseClientLike {
    return {
      acquireLease: (durationInSeconds, options) => this.#apply({ action: "acquire", id, durationInSeconds }, options),
      renewLease: (options) => this.#apply({ action: "renew", id }, options),
      changeLease: (proposedId, options) => this.#apply({ action: "change", id, proposedId }, options),
      releaseLease: (options) => this.#apply({ action: "release", id }, options),
      breakLease: (breakPeriodInSeconds, options) => this.#apply({ action: "break", breakPeriodInSeconds }, options),
    };
  }

  get #leaseKey(): string {
    return leaseKeyOf(this.url);
  }

  #apply(request: LeaseRequest, options: LeaseCallOptions = {}): Promise<LeaseResponseLike> {
    const call = { operation: request.action, kind: "write" as const, resource: this.url };
    return this.#link.request(call, options.abortSignal, blobError, () => {
      const { stored } = this;
      if (!stored) throw blobError(404, "BlobNotFound");
      const { ifMatch, ifNoneMatch } = options.conditions ?? {};
      if ((ifMatch !== undefined && ifMatch !== stored.etag) || ifNoneMatch === stored.etag) throw blobError(412, "ConditionNotMet");
      const { resources, time } = this.#link.backend;
      try {
        const { lease, leaseTime } = applyLease("share", this.lease, request, time.now);
        resources.set(this.#leaseKey, lease);
        return { leaseId: lease.id, leaseTime, etag: stored.etag };
      } catch (fault) {
        const { code, status } = fault as { code?: string; status?: number };
        throw typeof code === "string" && typeof status === "number" ? blobError(status, code) : fault;
      }
    });
  }
}

/** The container of all simulated blobs, as one process sees it. */
export function simContainer(link: Link): ContainerLike {
  return {
    url: containerUrl,
    getBlockBlobClient: (name) => new SimBlob(link, name),
    getAppendBlobClient: (name) => new FakeAppendBlob(link, { url: `${containerUrl}/${name}` }),
    setMetadata: notFaked,
    getAccessPolicy: notFaked,
    setAccessPolicy: notFaked,
    getBlobLeaseClient: notFaked,
    getProperties: ({ abortSignal } = {}) => link.request({ operation: "getProperties", kind: "read", resource: containerUrl }, abortSignal, blobError, () => ({})),
    listBlobsFlat: ({ prefix = "", abortSignal } = {}) => listBlobs(link, prefix, abortSignal),
  };
}

/** An iterator by hand: what an async generator adds to each item would be most of the time of a fleet of a thousand processes. */
function listBlobs(link: Link, prefix: string, abortSignal: AbortSignal | undefined): AsyncIterable<BlobItemLike> {
  const call = { operation: "list", kind: "read" as const, resource: containerUrl };
  const { resources, time } = link.backend;
  const item = (url: string): BlobItemLike => {
    const { etag, metadata, content, lastModified } = resources.get(url) as StoredBlob;
    const { state, durationInSeconds } = leaseAt((resources.get(leaseKeyOf(url)) as Lease | undefined) ?? neverLeased, time.now);
    const leaseDuration = durationInSeconds === -1 ? "infinite" : "fixed";
    // As the service does it: without the quotes.
    return { name: url.slice(containerUrl.length + 1), metadata, properties: { etag: etag.slice(1, -1), lastModified, contentLength: content.length, leaseState: state, leaseDuration } };
  };
  const open = (): AsyncIterator<BlobItemLike, undefined> => {
    let items: readonly BlobItemLike[] | undefined;
    let next = 0;
    return {
      next: async () => {
        items ??= await link.request(call, abortSignal, blobError, () => resources.sortedKeys(`${containerUrl}/${prefix}`).map(item));
        const value = items[next++];
        return value ? { done: false, value } : { done: true, value: undefined };
      },
    };
  };
  return { [Symbol.asyncIterator]: open };
}

function leaseKeyOf(url: string): string {
  return `lease of ${url}`;
}
