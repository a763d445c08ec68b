import { text } from "node:stream/consumers";

import type { BlockBlobClient, ContainerClient } from "@azure/storage-blob";
import { beforeEach, describe, expect, it } from "vitest";

import { acquireLease, inspectLease, type LeaseHandle, tryAcquireLease, withLease } from "../../src/index.js";
import { containerClient, freshContainer } from "../support/clients.js";

/** Two parties that share nothing but the storage. */
let ours: BlockBlobClient;
let theirs: BlockBlobClient;
let container: ContainerClient;

beforeEach(async () => {
  container = await freshContainer();
  ours = container.getBlockBlobClient("doc");
  theirs = containerClient(container.containerName).getBlockBlobClient("doc");
  await ours.upload("old", 3);
});

async function read(blob: BlockBlobClient, lease?: Pick<LeaseHandle, "conditions">): Promise<string> {
  const answer = await blob.download(0, undefined, lease && { conditions: lease.conditions });
  return text(answer.readableStreamBody!);
}

describe("exclusive write, shared read: the writer leases, readers do not", () => {
  it("lets the holder write and everybody read", async () => {
    await withLease(ours, async (lease) => {
      await ours.upload("new", 3, { conditions: lease.conditions });
      expect(await read(theirs)).toBe("new");
    });
  });

  it("refuses every other write while the lease is held: without an id, with another one, and deletes", async () => {
    await withLease(ours, async () => {
      const conditions = { leaseId: crypto.randomUUID() };
      await expect(theirs.upload("theirs", 6)).rejects.toMatchObject({ statusCode: 412, code: "LeaseIdMissing" });
      await expect(theirs.upload("theirs", 6, { conditions })).rejects.toMatchObject({ statusCode: 412 });
      await expect(theirs.setMetadata({ by: "them" })).rejects.toMatchObject({ statusCode: 412 });
      await expect(theirs.delete()).rejects.toMatchObject({ statusCode: 412 });
    });
    expect(await read(theirs)).toBe("old");
  });

  it("lets the next writer in as soon as the lease is released", async () => {
    const first = await acquireLease(ours);
    const second = acquireLease(theirs, { waitInMs: 5_000 });
    await ours.upload("first", 5, { conditions: first.conditions });
    await first.release();
    await using lease = await second;
    expect(await read(theirs)).toBe("first");
    await theirs.upload("second", 6, { conditions: lease.conditions });
  });
});

describe("exclusive write, exclusive read: readers lease too, and read with their lease id", () => {
  it("lets a reader in only once the writer is done", async () => {
    const writer = await acquireLease(ours);
    await expect(tryAcquireLease(theirs)).resolves.toBeUndefined();
    const reading = withLease(theirs, (lease) => read(theirs, lease), { waitInMs: 5_000 });
    await ours.upload("new", 3, { conditions: writer.conditions });
    await writer.release();
    await expect(reading).resolves.toBe("new");
  });

  it("keeps the writer out while somebody reads", async () => {
    await withLease(theirs, async (lease) => {
      await expect(tryAcquireLease(ours)).resolves.toBeUndefined();
      await expect(ours.upload("new", 3)).rejects.toMatchObject({ statusCode: 412 });
      expect(await read(theirs, lease)).toBe("old");
    });
  });

  it("refuses a read with the id of a lease that is no longer held", async () => {
    const stale = await acquireLease(theirs);
    await stale.release();
    await withLease(ours, async () => {
      await expect(read(theirs, stale)).rejects.toMatchObject({ statusCode: 412 });
    });
    await expect(read(theirs, stale)).rejects.toMatchObject({ statusCode: 412 });
  });
});

describe("shared write, exclusive read: a reader leases to hold the writers off, who do not lease", () => {
  it("refuses all writers while it reads, so that what it reads in parts is of one piece", async () => {
    await withLease(ours, async (lease) => {
      const half = (offset: number): Promise<string> =>
        ours.download(offset, 2, { conditions: lease.conditions }).then((answer) => text(answer.readableStreamBody!));
      const first = await half(0);
      await expect(theirs.upload("NEW", 3)).rejects.toMatchObject({ statusCode: 412, code: "LeaseIdMissing" });
      expect(first + (await half(2))).toBe("old");
    });
  });

  it("lets any of the writers write again afterwards, without a lease", async () => {
    await withLease(ours, (lease) => read(ours, lease));
    await theirs.upload("theirs", 6);
    await ours.upload("ours", 4);
    expect(await read(theirs)).toBe("ours");
  });
});

describe("the lease of a container", () => {
  it("keeps the container from being deleted without its id", async () => {
    const other = containerClient(container.containerName);
    const lease = await acquireLease(container);
    expect(await inspectLease(other)).toMatchObject({ state: "leased", duration: "fixed" });
    await expect(other.delete()).rejects.toMatchObject({ statusCode: 412, code: "LeaseIdMissing" });
    await expect(other.delete({ conditions: { leaseId: crypto.randomUUID() } })).rejects.toMatchObject({ statusCode: 412 });
    await other.delete({ conditions: lease.conditions });
    await lease.release();
    await expect(inspectLease(other)).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });

  it("keeps nobody from anything else", async () => {
    await withLease(container, async () => {
      await theirs.upload("new", 3);
      await theirs.setMetadata({ by: "them" });
      await containerClient(container.containerName).setMetadata({ by: "them" });
      await theirs.delete();
    });
  });

  it("is exclusive, and does not get in the way of leases of the blobs in it", async () => {
    await withLease(container, async () => {
      await expect(tryAcquireLease(containerClient(container.containerName))).resolves.toBeUndefined();
      await withLease(theirs, (lease) => theirs.upload("new", 3, { conditions: lease.conditions }));
    });
  });
});
