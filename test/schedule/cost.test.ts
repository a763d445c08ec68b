import { beforeEach, expect, test, vi } from "vitest";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { FakeFleet, noting, working } from "./fakes.js";

useFakeClock();

let fleet: FakeFleet;
beforeEach(() => {
  vi.setSystemTime(new Date("2030-01-01T10:00:30.000Z"));
  fleet = new FakeFleet();
});

/** The requests of a time: to the table by operation, and to the container of the locks. */
async function during(ms: number): Promise<{ table: Record<string, number>; locks: number }> {
  const [table, locks] = [fleet.service.requests.length, fleet.server.requests.length];
  await pass(ms);
  const counts: Record<string, number> = {};
  for (const { operation } of fleet.service.requests.slice(table)) counts[operation] = (counts[operation] ?? 0) + 1;
  return { table: counts, locks: fleet.server.requests.length - locks };
}

test("between due times an instance reads the table once in each poll interval, however many jobs it has", async () => {
  const jobs = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`job-${i}`, noting([], { everyInMs: 86_400_000 })]));
  fleet.instance(jobs, { pollIntervalInMs: 10_000 });
  await fleet.start();
  const { table, locks } = await during(600_000);
  expect(Object.keys(table)).toEqual(["listEntities"]);
  expect(table["listEntities"]).toBeGreaterThan(54);
  expect(table["listEntities"]).toBeLessThan(66);
  expect(locks).toBe(0);
  await fleet.stop();
});

test("a due time costs the winner 2 writes, 2 reads and the lock, and each loser 1 read", async () => {
  const ran: string[] = [];
  const instances = 5;
  for (let i = 0; i < instances; i++) fleet.instance({ job: noting(ran, { everyInMs: 3_600_000 }) }, { pollIntervalInMs: 7_200_000 });
  await fleet.start();
  // The lock is created by its first use.
  await pass(7_100_000);
  const { table, locks } = await during(100_000);
  expect(ran).toHaveLength(2);
  // One look of each instance, the claim, and the end with the read before it.
  expect(table).toEqual({ listEntities: instances, updateEntity: 2, getEntity: 1 });
  // Another instance has used it before: 3 to acquire it, 1 to release it.
  expect(locks).toBeLessThanOrEqual(4);
  await fleet.stop();
});

test("losers that look at the same moment as the winner cost 2 requests: the read, and the lock that is taken", async () => {
  const ran: string[] = [];
  for (let i = 0; i < 5; i++) fleet.instance({ job: noting(ran, { everyInMs: 3_600_000 }, () => working(100)) }, { pollIntervalInMs: 600_000 }, "same-moment");
  await fleet.start();
  await pass(7_165_000);
  const { table, locks } = await during(10_000);
  expect(ran).toHaveLength(2);
  expect(table).toEqual({ listEntities: 5, updateEntity: 2, getEntity: 1 });
  expect(locks).toBeLessThanOrEqual(4 + 4);
  await fleet.stop();
});

test("jobs that are due at the same time share a read", async () => {
  const ran: string[] = [];
  fleet.instance(Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`job-${i}`, noting(ran, { everyInMs: 3_600_000 })])), { pollIntervalInMs: 7_200_000 });
  await fleet.start();
  const { table } = await during(3_600_000);
  expect(ran).toHaveLength(10);
  expect(table).toEqual({ listEntities: 1, updateEntity: 20, getEntity: 10 });
  await fleet.stop();
});

test("jobs that are due at the same time are claimed 32 at a time, and their functions run at the same time", async () => {
  let [running, most] = [0, 0];
  const names = Array.from({ length: 100 }, (_, i) => `job-${i}`);
  const jobs = Object.fromEntries(names.map((name) => [name, noting([], { everyInMs: 60_000 }, async () => {
    most = Math.max(most, ++running);
    await working(10_000);
    running--;
  })]));
  const { table } = fleet.instance(jobs, { pollIntervalInMs: 7_200_000 });
  let [claiming, mostClaims] = [0, 0];
  const update = table.updateEntity.bind(table);
  vi.spyOn(table, "updateEntity").mockImplementation(async (...args) => {
    mostClaims = Math.max(mostClaims, ++claiming);
    await working(50);
    return update(...args).finally(() => claiming--);
  });
  await fleet.start();
  await pass(35_000);
  expect(most).toBe(100);
  expect(mostClaims).toBe(32);
  await pass(15_000);
  expect(running).toBe(0);
  expect(fleet.errors).toEqual([]);
  await fleet.stop();
});

test("a commit costs 3 requests more: the announcement of its partition, read and written, and the transaction", async () => {
  fleet.instance({ job: noting([], { everyInMs: 3_600_000 }, ({ commit }) => commit("effects", [["upsert", { rowKey: "a" }]])) }, { pollIntervalInMs: 7_200_000 });
  await fleet.start();
  const { table } = await during(3_600_000);
  expect(table).toEqual({ listEntities: 1, updateEntity: 3, getEntity: 2, submitTransaction: 1 });
  await fleet.stop();
});

test("while another instance runs a job, its lock is tried every takeoverIntervalInMs", async () => {
  for (let i = 0; i < 2; i++) fleet.instance({ job: noting([], { everyInMs: 86_400_000 }, () => working(3_000_000)) }, { pollIntervalInMs: 5_000, takeoverIntervalInMs: 60_000 });
  await fleet.start();
  await fleet.instances[0]!.schedule.trigger("job");
  await pass(10_000);
  const before = fleet.server.count("acquire");
  await pass(600_000);
  expect(fleet.server.count("acquire") - before).toBeGreaterThanOrEqual(7);
  expect(fleet.server.count("acquire") - before).toBeLessThanOrEqual(14);
  await pass(2_500_000);
  await fleet.stop();
});

test("trigger, pause and resume cost 2 requests, 1 more on an object that is not started, status and history 1", async () => {
  const { schedule } = fleet.instance({ job: noting([], { everyInMs: 86_400_000 }) });
  await schedule.pause("job");
  const cost = async (call: () => Promise<unknown>): Promise<number> => {
    const before = fleet.service.requests.length;
    await call();
    return fleet.service.requests.length - before;
  };
  expect(await cost(() => schedule.resume("job"))).toBe(3);
  expect(await cost(() => schedule.trigger("job"))).toBe(3);
  await fleet.start();
  expect(await cost(() => schedule.pause("job"))).toBe(2);
  expect(await cost(() => schedule.status())).toBe(1);
  expect(await cost(() => schedule.history("job").next())).toBe(1);
  await fleet.stop();
});
