import { expect, it } from "vitest";

import { run } from "../../src/cli/run.js";
import { BlobLocks, breakLease, inspectLease } from "../../src/index.js";
import type { LockHandle } from "../../src/index.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";

/** An operator who confirms after something has happened. */
function operator(meanwhile: () => Promise<unknown>): FakeTerminal {
  const terminal = new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: azurite().connectionString } });
  return Object.assign(terminal, {
    interactive: true,
    ask: async (question: string) => {
      terminal.asked.push(question);
      await meanwhile();
      return "y";
    },
  });
}

/** A lock whose blob is leased, and has no record: of a holder that died before it wrote one, or whose record was deleted. */
async function withoutRecord() {
  const container = await freshContainer();
  const blob = container.getBlockBlobClient("locks/job");
  await blob.upload("", 0);
  const lease = blob.getBlobLeaseClient();
  await lease.acquireLease(60);
  return { container, blob, lease, args: ["locks", "break", "job", "-c", container.containerName] };
}

it("a lock without a record is broken for the holder that was shown", async () => {
  const { blob, lease, args } = await withoutRecord();
  const terminal = operator(() => Promise.resolve());
  expect(await run(args, terminal)).toBe(0);
  expect(terminal.asked[0]).toContain("(epoch none) is held by an unknown holder");
  await expect(lease.renewLease()).rejects.toMatchObject({ statusCode: 409 });
  expect((await inspectLease(blob)).state).toBe("broken");
});

it("a lock without a record is not broken for the holder after the one that was shown", async () => {
  const { container, lease, args } = await withoutRecord();
  let next: LockHandle | undefined;
  const terminal = operator(async () => {
    await lease.releaseLease();
    next = await new BlobLocks(containerClient(container.containerName)).acquire("job");
  });
  expect(await run(args, terminal)).toBe(4);
  expect(terminal.stderr).toContain("Nothing was changed.");
  await next?.release();
});

it("nor is one whose record was deleted while the operator decided, and which another process has now", async () => {
  const container = await freshContainer();
  const first = await new BlobLocks(container, { holder: "first" }).acquire("job");
  let next: LockHandle | undefined;
  const terminal = operator(async () => {
    await first.release();
    await container.getBlockBlobClient("locks/job").setMetadata({ asc_epoch: String(first.epoch), asc_reserved: "1000", asc_holder: "first" });
    next = await new BlobLocks(containerClient(container.containerName), { holder: "next" }).acquire("job");
  });
  expect(await run(["locks", "break", "job", "-c", container.containerName, "--epoch", String(first.epoch)], terminal)).toBe(4);
  await next?.release();
});

it("breakLease with the ETag that was seen breaks the lease of that blob, as it was, and of nothing else", async () => {
  const { container, blob, lease } = await withoutRecord();
  const { etag } = await inspectLease(blob);
  expect(await breakLease(blob, { expectedEtag: '"0x1"' })).toBe(false);
  await lease.renewLease();
  expect(await breakLease(blob, { expectedEtag: etag })).toBe(true);
  expect(await breakLease(blob, { expectedEtag: etag })).toBe(false);
  await expect(breakLease(blob, { expectedEtag: "" })).rejects.toThrow(TypeError);
  await expect(breakLease(container, { expectedEtag: etag })).rejects.toThrow(TypeError);
});

it("a holder that got the lock by a hand-over within the process keeps it, once the lock shows its epoch", async () => {
  const container = await freshContainer();
  const locks = new BlobLocks(container);
  const first = await locks.acquire("job");
  const waiting = locks.acquire("job");
  let second: LockHandle | undefined;
  const terminal = operator(async () => {
    await first.release();
    second = await waiting;
    // A holder of one second writes its epoch.
    await expect.poll(async () => (await locks.inspect("job")).epoch, { timeout: 5_000 }).toBe(second.epoch);
  });
  expect(await run(["locks", "break", "job", "-c", container.containerName], terminal)).toBe(4);
  expect(second?.epoch).toBe(first.epoch + 1);
  await second?.release();
});
