import { notFaked } from "../support/not-faked.js";
import { describe, expect, it } from "vitest";

import { acquireLease, blobMetadata, containerMetadata, isConcurrencyError, leasedUpdate } from "../../src/index.js";
import type { LeaseHandle } from "../../src/index.js";
import type { ContainerLike } from "../../src/clients/blob.js";
import { hang, reset, restError, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { countedAbort, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

describe("a leased update of a target without If-Match", () => {
  it("whose write arrives late, and whose lease id cannot be changed, does not undo the next caller's update", async () => {
    const server = new FakeLeaseServer();
    const stored = server.addBlob("container");
    stored.metadata = { v: "base" };
    const client = server.blob("container");
    const unused = (): Promise<never> => Promise.reject(new Error("not used here"));
    let late: (() => Promise<unknown>) | undefined;
    const container: ContainerLike = {
      ...client,
      getBlockBlobClient: notFaked,
      listBlobsFlat: notFaked,
      getAccessPolicy: unused,
      setAccessPolicy: unused,
      setMetadata: (metadata, options) => {
        if (late) return client.setMetadata(metadata, options);
        options?.abortSignal?.addEventListener("abort", () => undefined); // one for each send, as the SDK
        late = () => client.setMetadata(metadata, { conditions: { ...options?.conditions } });
        return Promise.reject(restError(reset));
      },
    };
    let failures = 8;
    server.intercept = (operation) => ((operation === "change" || operation === "renew") && failures-- > 0 ? reset : undefined);
    const target = containerMetadata(container);
    const first = outcomeOf(leasedUpdate(target, (metadata) => void (metadata.v = "first")));
    await pass(1);
    const second = outcomeOf(leasedUpdate(target, (metadata) => void (metadata.second = "done")));
    const third = outcomeOf(leasedUpdate(target, () => new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 10_000))));
    for (let ms = 0; ms < 60_000 && second.at === undefined; ms += 10) await pass(10);
    const ids = new Set(server.requests.filter(({ operation }) => operation === "acquire").map(({ leaseId }) => leaseId));
    await pass(10);
    await Promise.all([late!().catch(() => undefined), pass(10)]);
    await pass(30_000);
    expect(first.error).toSatisfy((error: unknown) => isConcurrencyError(error, "COMMIT_UNKNOWN"));
    expect(second.error).toBeUndefined();
    expect(third.at).toBeDefined();
    expect(stored.metadata).toEqual({ v: "base", second: "done" });
    expect(ids.size).toBeGreaterThan(1);
  });
});

describe("a leased update whose write is rejected for now", () => {
  it("waits, and has written nothing if its time is over meanwhile", async () => {
    const server = new FakeLeaseServer();
    const stored = server.addBlob();
    let writes = 0;
    server.intercept = (operation) => (operation === "metadata" ? (writes++, status(409, "PendingCopyOperation")) : undefined);
    const outcome = outcomeOf(leasedUpdate(blobMetadata(server.blob()), (metadata) => void (metadata.a = "1"), { timeoutInMs: 5_000 }));
    await pass(60_000);
    expect(outcome.error).toMatchObject({ committed: false, retryable: true });
    expect(writes).toBeGreaterThan(2);
    expect(stored.metadata["a"]).toBeUndefined();
  });
});

describe.each([409, 412])("a leased update whose write is rejected with %i", (statusCode) => {
  it("is of unknown outcome if its deadline passes before the read that excludes a copy of the write", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    let rejected = false;
    server.intercept = (operation) => {
      if (rejected) return operation === "release" ? undefined : hang;
      rejected = operation === "metadata";
      return rejected ? status(statusCode, statusCode === 412 ? "ConditionNotMet" : "BlobAlreadyExists") : undefined;
    };
    const update = outcomeOf(leasedUpdate(blobMetadata(server.blob()), (metadata) => void (metadata.n = "1"), { timeoutInMs: 800 }));
    await pass(60_000);
    expect(update.error).toSatisfy((error: unknown) => isConcurrencyError(error, "COMMIT_UNKNOWN"));
    expect(server.blobs.get("blob")!.metadata).toEqual({});
  });
});

it("a leased update does not start from what the secondary shows: it may be the state before the last holder wrote", async () => {
  const server = new FakeLeaseServer();
  server.addBlob().metadata = { last: "holder" };
  const client = server.blob();
  let reads = 0;
  const blob = {
    ...client,
    url: "https://account.blob.core.windows.net/docs/doc.json",
    getProperties: async (...args: Parameters<typeof client.getProperties>) => {
      const properties = await client.getProperties(...args);
      return reads++ > 0 ? properties : { ...properties, metadata: {}, _response: { request: { url: "https://account-secondary.blob.core.windows.net/docs/doc.json" } } };
    },
  };
  const update = outcomeOf(leasedUpdate(blobMetadata(blob), (metadata) => void (metadata.n = "1")));
  await pass(10_000);
  expect(update.error).toBeUndefined();
  expect(server.blobs.get("blob")!.metadata).toMatchObject({ last: "holder", n: "1" });
});

it("a leased update with a lease that was released says so, and sends nothing", async () => {
  const server = new FakeLeaseServer();
  server.addBlob("blob");
  const blob = server.blob("blob");
  const acquired = outcomeOf(acquireLease(blob));
  await pass(10);
  const lease = acquired.value!;
  const releasing = outcomeOf(lease.release());
  await pass(10);
  expect(releasing.error).toBeUndefined();
  const requests = server.requests.length;
  const updating = outcomeOf(leasedUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1"), { lease }));
  await pass(10);
  expect(updating.error).toMatchObject({ code: "LEASE_LOST" });
  expect(server.requests).toHaveLength(requests);
});

describe("leased updates under one lease of the caller", () => {
  /** The metadata of a container, for which the service checks no condition. */
  async function leasedContainer(): Promise<{ server: FakeLeaseServer; lease: LeaseHandle; update: (n: string, options?: object, wait?: Promise<void>) => ReturnType<typeof outcomeOf>; metadata: () => object }> {
    const server = new FakeLeaseServer();
    const stored = server.addBlob("container");
    const container: ContainerLike = { ...server.blob("container"), getBlockBlobClient: notFaked, listBlobsFlat: notFaked, getAccessPolicy: notFaked, setAccessPolicy: notFaked };
    const acquired = outcomeOf(acquireLease(container));
    await pass(10);
    const lease = acquired.value!;
    const mutator = (n: string, wait?: Promise<void>) => async (metadata: Record<string, string>) => {
      await wait;
      metadata[n] = "done";
    };
    return { server, lease, metadata: () => stored.metadata, update: (n, options, wait) => outcomeOf(leasedUpdate(containerMetadata(container), mutator(n, wait), { lease, ...options })) };
  }

  it("need a lease: options of one are misuse, and the error says so", async () => {
    const { lease, server, update } = await leasedContainer();
    const requests = server.requests.length;
    const updating = update("a", { lease: { waitInMs: 3_000 } });
    await pass(10);
    expect(updating.error).toMatchObject({ name: "TypeError", message: "lease must be a lease that acquireLease has returned, or withLease has passed to its function." });
    expect(server.requests).toHaveLength(requests);
    void lease.release();
    await pass(100);
  });

  it("run one after the other, and none undoes another", async () => {
    const { lease, metadata, update } = await leasedContainer();
    const updates = ["a", "b", "c"].map((n) => update(n));
    await pass(1_000);
    expect(updates.map(({ error }) => error)).toEqual([undefined, undefined, undefined]);
    expect(metadata()).toEqual({ a: "done", b: "done", c: "done" });
    void lease.release();
    await pass(100);
  });

  it("wait no longer than they may, for a mutator that does not end, and let the next one pass", async () => {
    const { server, lease, metadata, update } = await leasedContainer();
    const never = new Promise<void>(() => undefined);
    const controller = countedAbort();
    const { signal, listeners } = controller;
    const [first, late, cancelled, last] = [update("a", { timeoutInMs: 5_000 }, never), update("b", { timeoutInMs: 1_000 }), update("c", { abortSignal: signal }), update("d")];
    const requests = server.requests.length;
    await pass(1_000);
    expect(late.error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: false });
    controller.abort(new Error("enough"));
    await pass(0);
    expect(cancelled.error).toMatchObject({ message: "enough" });
    expect(listeners()).toBe(0);
    expect(server.requests.length).toBeLessThanOrEqual(requests + 1);
    await pass(5_000);
    expect(first.error).toMatchObject({ code: "OPERATION_TIMEOUT" });
    expect(last.error).toBeUndefined();
    expect(metadata()).toEqual({ d: "done" });
    void lease.release();
    await pass(100);
  });

  it("end when the lease is lost, also those that wait", async () => {
    const { server, lease, metadata, update } = await leasedContainer();
    const updates = [update("a", {}, new Promise<void>(() => undefined)), update("b")];
    await pass(10);
    server.intercept = () => status(409, "LeaseIdMismatchWithLeaseOperation");
    await pass(60_000);
    for (const { error } of updates) expect(error).toMatchObject({ code: "LEASE_LOST" });
    expect(metadata()).toEqual({});
    server.intercept = undefined;
    void lease.release().catch(() => undefined);
    await pass(60_000);
  });
});

it("a leased update that is rejected for its operationId leaves no listener on the caller's signal", async () => {
  const server = new FakeLeaseServer();
  server.addBlob();
  const { signal, listeners } = countedAbort();
  for (const operationId of ["a b", "x".repeat(65)]) {
    await expect(leasedUpdate(blobMetadata(server.blob()), () => undefined, { operationId, abortSignal: signal })).rejects.toThrow(RangeError);
  }
  expect(listeners()).toBe(0);
  expect(server.requests).toEqual([]);
});

it("a leased update whose requests hang returns at most a try after its time is over, and its lease is released in the background", async () => {
  const server = new FakeLeaseServer();
  server.addBlob();
  let hanging = 3;
  server.intercept = (operation) => (operation === "release" && hanging-- > 0 ? hang : undefined);
  const started = elapsed();
  const update = outcomeOf(leasedUpdate(blobMetadata(server.blob()), () => new Promise<undefined>(() => undefined), { timeoutInMs: 3_000, tryTimeoutInMs: 750, durationInSeconds: 60 }));
  await pass(60_000);
  expect(update.error).toBeDefined();
  expect(update.at! - started).toBeLessThanOrEqual(3_750);
  await pass(60_000);
  expect(server.requests.at(-1)?.operation).toBe("release");
});
