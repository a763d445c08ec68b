import type { BlobClient, ContainerClient } from "@azure/storage-blob";
import type { ShareClient } from "@azure/storage-file-share";
import { startStopwatch } from "../../../core/deadline.js";
import type { Check } from "../check.js";
import type { Service } from "../service.js";
import { removal } from "../check.js";
import { exchange } from "../exchange.js";
import type { Workspace } from "../workspace.js";
import { expiryPolls } from "./expiry.js";

const ownId = "6d0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d21";
const otherId = "6d0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d22";
const seconds = 15;
const renewed = "a renewal restarts the time";

/** What can be leased for a limited time, with the differences of the SDKs removed. */
interface Leasable {
  acquire(id: string, durationInSeconds: number): Promise<object>;
  renew(): Promise<object>;
  /** Returns the seconds until the lease has ended. */
  break(periodInSeconds?: number): Promise<number | undefined>;
  state(): Promise<string | undefined>;
  /** A write that the lease protects, with the id of the holder. */
  write(): Promise<object>;
}

interface Kind {
  readonly service: Service;
  readonly group: string;
  create(workspace: Workspace): Promise<Leasable>;
  /** Of the creation and the removal. */
  readonly requests: number;
}

function ofBlobService(target: BlobClient | ContainerClient, write: () => Promise<object>): Leasable {
  return {
    acquire: (id, duration) => target.getBlobLeaseClient(id).acquireLease(duration),
    renew: () => target.getBlobLeaseClient(ownId).renewLease(),
    break: async (period) => (await target.getBlobLeaseClient().breakLease(period as number)).leaseTime,
    state: async () => (await target.getProperties()).leaseState,
    write,
  };
}

const untypedPeriod = (breakPeriod: number): object => ({ breakPeriod });

function ofShare(share: ShareClient): Leasable {
  return {
    acquire: (id, duration) => share.getShareLeaseClient(id).acquireLease(duration),
    // The SDK cannot: acquiring the lease again with the same id does it.
    renew: () => Promise.reject(new Error("the SDK does not renew the lease of a share")),
    // The types of the SDK do not have the period.
    break: async (breakPeriod) => (await share.getShareLeaseClient().breakLease(breakPeriod === undefined ? {} : untypedPeriod(breakPeriod))).leaseTimeInSeconds,
    state: async () => (await share.getProperties()).leaseState,
    write: () => share.setMetadata({ a: "b" }, { leaseAccessConditions: { leaseId: ownId } }),
  };
}

const kinds: readonly Kind[] = [
  {
    service: "blob",
    group: "Time of a blob's lease",
    requests: 1,
    create: async (workspace) => {
      const blob = (await workspace.blobs()).getBlockBlobClient(workspace.name());
      await blob.upload("x", 1);
      return ofBlobService(blob, () => blob.upload("y", 1, { conditions: { leaseId: ownId } }));
    },
  },
  {
    service: "blob",
    group: "Time of a container's lease",
    requests: 1 + removal.leased,
    create: async (workspace) => {
      const container = await workspace.container({ leased: true });
      return ofBlobService(container, () => container.setMetadata({ a: "b" }, { conditions: { leaseId: ownId } }));
    },
  },
  {
    service: "file",
    group: "Time of a share's lease",
    requests: 1 + removal.leased,
    create: async (workspace) => ofShare(await workspace.share({ leased: true })),
  },
];

type Part = Pick<Check, "name" | "source" | "expected" | "requests" | "polls" | "slow" | "helper"> & { run(target: Leasable, workspace: Workspace): Promise<string> };

const between = (value: number | undefined, min: number, max: number): string =>
  value !== undefined && value >= min && value <= max ? `${min} to ${max} s` : `${value ?? "no"} s`;

const parts: readonly Part[] = [
  {
    name: "a lease of 15 s is not available to others before 15 s",
    source: "documented",
    helper: "`withLease`: the holder counts from before its request",
    expected: "acquired by another after 15 to 90 s",
    slow: true,
    polls: expiryPolls,
    requests: 2,
    run: async (target, workspace) => {
      // From before the request: the service cannot have begun earlier. Asked from 13 s on, so that one that ends early is noticed.
      const elapsedInMs = startStopwatch();
      await target.acquire(ownId, seconds);
      await workspace.pause(13_000);
      await workspace.poll(async () => (await exchange(() => target.acquire(otherId, seconds))).response, (response) => response === "201", expiryPolls * 1_000);
      return `acquired by another after ${between(Math.floor(elapsedInMs() / 1_000), 15, 90)}`;
    },
  },
  ...(["renew", "acquire"] as const).map((action): Part => ({
    name: action === "renew" ? renewed : "acquiring again with the same id restarts the time",
    source: "documented",
    helper: "`withLease`",
    expected: "leased 18 s after the first acquire",
    slow: true,
    requests: 3,
    run: async (target, workspace) => {
      await target.acquire(ownId, seconds);
      await workspace.pause(8_000);
      await (action === "renew" ? target.renew() : target.acquire(ownId, seconds));
      await workspace.pause(10_000);
      return `${(await target.state()) ?? "unknown"} 18 s after the first acquire`;
    },
  })),
  {
    name: "a break without a period leaves the rest of the time",
    source: "documented; recorded: for shares",
    helper: "`breakLease`",
    expected: "1 to 15 s, breaking",
    requests: 3,
    run: async (target) => {
      await target.acquire(ownId, seconds);
      return `${between(await target.break(), 1, seconds)}, ${(await target.state()) ?? "unknown"}`;
    },
  },
  {
    name: "a break does not make a lease longer",
    source: "documented",
    helper: "`breakLease`",
    expected: "1 to 15 s, breaking",
    requests: 3,
    run: async (target) => {
      await target.acquire(ownId, seconds);
      return `${between(await target.break(60), 1, seconds)}, ${(await target.state()) ?? "unknown"}`;
    },
  },
  {
    name: "a break of an infinite lease without a period is immediate",
    source: "documented",
    helper: "`breakLease`",
    expected: "0 s, broken",
    requests: 3,
    run: async (target) => {
      await target.acquire(ownId, -1);
      return `${(await target.break()) ?? "no"} s, ${(await target.state()) ?? "unknown"}`;
    },
  },
  {
    name: "the holder may write until the period of a break is over",
    source: "documented",
    helper: "`breakLease` with a period: the time to finish",
    expected: "a write with the id: passes; acquired by another afterwards: 201",
    slow: true,
    polls: expiryPolls,
    requests: 4,
    run: async (target, workspace) => {
      await target.acquire(ownId, 60);
      await target.break(10);
      const written = await exchange(() => target.write());
      await workspace.pause(10_500);
      const ask = async (): Promise<string> => (await exchange(() => target.acquire(otherId, seconds))).response;
      const acquired = await workspace.poll(ask, (response) => response === "201", expiryPolls * 1_000);
      return `a write with the id: ${/^2\d\d$/.test(written.response) ? "passes" : written.response}; acquired by another afterwards: ${acquired}`;
    },
  },
];

export const leaseTimingChecks: readonly Check[] = kinds.flatMap((kind) =>
  // A share's lease is renewed by acquiring it again.
  parts.filter(({ name }) => kind.service === "blob" || name !== renewed).map((part): Check => ({
    ...part, service: kind.service, group: kind.group, requests: kind.requests + part.requests, run: async (workspace) => part.run(await kind.create(workspace), workspace),
  })),
);
