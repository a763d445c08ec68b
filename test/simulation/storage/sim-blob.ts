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
    return `lease of ${this.url}`;
  }

  #apply(request: LeaseRequest, options: LeaseCallOptions = {}): Promise<LeaseResponseLike> {
    const call = { operation: request.action, kind: "write" as const, resource: this.url };
    return this.#link.request(call, options.abortSignal, blobError, () => {
      const { stored } = this;
      if (!stored) throw blobError(404, "BlobNotFound");
      const { ifMatch } = options.conditions ?? {};
      if (ifMatch !== undefined && ifMatch !== stored.etag) throw blobError(412, "ConditionNotMet");
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
    getProperties: notFaked,
    listBlobsFlat: ({ prefix = "", abortSignal } = {}) => listBlobs(link, prefix, abortSignal),
  };
}

async function* listBlobs(link: Link, prefix: string, abortSignal: AbortSignal | undefined): AsyncGenerator<BlobItemLike> {
  const call = { operation: "list", kind: "read" as const, resource: containerUrl };
  yield* await link.request(call, abortSignal, blobError, () => {
    const names = [...link.resources.keys()].filter((key) => key.startsWith(`${containerUrl}/${prefix}`)).map((key) => key.slice(containerUrl.length + 1));
    return names.sort().map((name): BlobItemLike => {
      const blob = new SimBlob(link, name);
      const { etag, metadata, content, lastModified } = blob.stored!;
      const { state, durationInSeconds } = blob.lease;
      const leaseDuration = durationInSeconds === -1 ? "infinite" : "fixed";
      // As the service does it: without the quotes.
      return { name, metadata: { ...metadata }, properties: { etag: etag.slice(1, -1), lastModified, contentLength: content.length, leaseState: state, leaseDuration } };
    });
  });
}
