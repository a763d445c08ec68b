import { expect, test } from "vitest";

import { isConcurrencyError } from "../../src/index.js";
import { useLease } from "../../src/lease/with-lease.js";
import { LockedTableImpl } from "../../src/lock/locked-table.js";
import { hang } from "../fakes/faults.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { hang as silence } from "../lease/fakes/answers.js";
import { abortTime, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { fakePartition } from "../transaction/fakes/partition.js";
import { locksOn, run } from "./support.js";

useFakeClock();

test("on a dead network withLock of a table ends when the loss is noticed, whatever its function waits for", async () => {
  const server = new FakeLeaseServer();
  const locks = locksOn(server);
  const lock = await run(locks.acquireFor("TableLock.withLock", "t", { durationInSeconds: 30 }));
  const { service, table } = fakePartition({ a: 1 });
  const held = new LockedTableImpl(table, { lock, blob: locks.blobOf("t"), granularity: "table", key: undefined });
  const partition = await run(held.partition("p"));
  const lost = abortTime(held.signal);
  server.intercept = () => silence;
  service.each("any", hang);
  const writing = outcomeOf(partition.submit([["upsert", { rowKey: "a", n: 2 }, "Replace"]]));
  const working = outcomeOf(useLease("TableLock.withLock", held, () => partition.get("a")));
  await pass(60_000);
  expect(lost.at).toBeLessThan(30_000);
  expect(isConcurrencyError(writing.error, "COMMIT_UNKNOWN")).toBe(true);
  expect(writing.at).toBe(lost.at);
  expect(working.error).toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === "unknown");
  expect(working.at! - lost.at!).toBeLessThan(10);
  expect(elapsed()).toBeGreaterThan(60_000);
});

test("the confirmation of a new fence row is a request under the lease: a holder without it is rejected", async () => {
  const server = new FakeLeaseServer();
  const locks = locksOn(server);
  const lock = await run(locks.acquireFor("TableLock.acquire", "t", { durationInSeconds: 30 }));
  const { table } = fakePartition({ a: 1 });
  const held = new LockedTableImpl(table, { lock, blob: locks.blobOf("t"), granularity: "table", key: undefined });
  server.blobs.get([...server.blobs.keys()][0]!)!.lease!.id = "another";
  const opening = outcomeOf(held.partition("p"));
  await pass(100);
  expect(opening.error).toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_LOST") && error.committed === false);
  const released = outcomeOf(held.release());
  await pass(10_000);
  expect(released.at).toBeDefined();
});
