import type { LeasePropertiesLike } from "../../../src/clients/blob.js";
import type { LeasableShareLike, ShareLeaseCallOptions, ShareLeaseClientLike } from "../../../src/clients/file.js";
import { ScriptedLeasable } from "./scripted-leasable.js";

/** A file client whose answers are written down beforehand; a share client with `asShare`. */
export class ScriptedFile implements LeasableShareLike {
  readonly url = "https://account.test/share/Some%20dir/F.json?sig=secret";
  readonly pipeline = {};
  readonly service: ScriptedLeasable;
  /** The id that each read named. */
  readonly reads: (string | undefined)[] = [];

  constructor(script: ScriptedLeasable["script"] = {}) {
    this.service = new ScriptedLeasable(script);
  }

  getShareLeaseClient(leaseId = ""): ShareLeaseClientLike {
    const client = this.service.getBlobLeaseClient(leaseId);
    return {
      acquireLease: (duration = 0, options) => client.acquireLease(duration, options),
      changeLease: (proposed, options) => client.changeLease(proposed, options),
      releaseLease: (options) => client.releaseLease(options),
      breakLease: (options) => client.breakLease(0, options),
    };
  }

  getProperties(options: ShareLeaseCallOptions & { leaseAccessConditions?: { leaseId?: string } } = {}): Promise<LeasePropertiesLike> {
    this.reads.push(options.leaseAccessConditions?.leaseId);
    return this.service.getProperties(options);
  }
}

export class ScriptedShare extends ScriptedFile {
  getDirectoryClient(): object {
    return {};
  }
}
