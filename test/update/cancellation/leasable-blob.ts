import type { LeaseCallOptions, LeaseClientLike, LeaseResponseLike } from "../../../src/clients/blob.js";
import { FakeBlockBlob, type StoredBlob } from "../../fakes/fake-block-blob.js";
import { blobError } from "../../fakes/rest-errors.js";
import type { UnreliableService } from "./unreliable-service.js";

/** When the leases of a service end, by their ids. */
const ends = new WeakMap<UnreliableService, Map<string, number>>();

/** A block blob in memory that can be leased. Leases end on the clock of the test. */
export class LeasableBlob extends FakeBlockBlob {
  constructor(service: UnreliableService, options: { url: string; pipeline: object }) {
    super(service, options);
    const times = ends.get(service) ?? new Map<string, number>();
    ends.set(service, times);
    this.#times = times;
    service.beforeServe = () => {
      for (const value of service.resources.values()) expire(value as Partial<StoredBlob>, times);
    };
  }

  readonly #times: Map<string, number>;

  override getBlobLeaseClient(id = ""): LeaseClientLike {
    const request = (operation: string, options: LeaseCallOptions | undefined, serve: (blob: StoredBlob) => LeaseResponseLike): Promise<LeaseResponseLike> =>
      this.service.request({ operation, kind: "write", resource: this.url }, options?.abortSignal, blobError, () => {
        if (!this.stored) throw blobError(404, "BlobNotFound");
        return serve(this.stored);
      });
    const held = (blob: StoredBlob): StoredBlob => {
      if (blob.leaseId !== id) throw blobError(409, "LeaseIdMismatchWithLeaseOperation");
      return blob;
    };
    const hold = (blob: StoredBlob, leaseId: string, ms: number): LeaseResponseLike => {
      blob.leaseId = leaseId;
      this.#times.set(leaseId, performance.now() + ms);
      return { leaseId };
    };
    let durationInMs = 60_000;
    return {
      acquireLease: (duration, options) =>
        request("acquireLease", options, (blob) => {
          if (blob.leaseId !== undefined && blob.leaseId !== id) throw blobError(409, "LeaseAlreadyPresent");
          durationInMs = duration === -1 ? Infinity : duration * 1_000;
          return hold(blob, id, durationInMs);
        }),
      renewLease: (options) => request("renewLease", options, (blob) => hold(held(blob), id, durationInMs)),
      changeLease: (proposed, options) => request("changeLease", options, (blob) => hold(held(blob), proposed, durationInMs)),
      releaseLease: (options) =>
        request("releaseLease", options, (blob) => {
          held(blob).leaseId = undefined;
          return {};
        }),
      breakLease: () => Promise.reject(new Error("not part of this fake")),
    };
  }
}

function expire(blob: Partial<StoredBlob>, times: ReadonlyMap<string, number>): void {
  if (blob.leaseId !== undefined && (times.get(blob.leaseId) ?? 0) <= performance.now()) blob.leaseId = undefined;
}
