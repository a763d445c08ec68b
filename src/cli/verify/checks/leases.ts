import type { BlobClient, ContainerClient } from "@azure/storage-blob";
import type { Check } from "../check.js";
import { outcome, removal } from "../check.js";
import { exchange } from "../exchange.js";
import type { BlobLeaseRow } from "../rows/blob-lease.js";
import { blobLeaseRows, leaseResponses } from "../rows/blob-lease.js";
import { blobLeaseId } from "../rows/blob.js";
import type { ContainerLeaseRow } from "../rows/container-lease.js";
import { containerLeaseResponses, containerLeaseRows } from "../rows/container-lease.js";
import { leaseId as containerLeaseId } from "../rows/container.js";
import type { LeaseActionRow } from "../rows/lease-actions.js";
import { leaseActionRows, otherId, ownId } from "../rows/lease-actions.js";
import type { Workspace } from "../workspace.js";
import { blobCost, createBlob } from "./blobs.js";
import { isAccessPolicy } from "./containers.js";
import { expiryPolls, untilExpired } from "./expiry.js";

const anotherId = "9c1f9f0a-0b0d-4a39-8d13-52b4c1bb1c33";
interface LeaseCase {
  readonly name: string;
  /** How long the lease is: not leased at all, infinite, or of 15 seconds that are over. */
  readonly lease: "none" | "infinite" | "expired";
  readonly leaseId?: string;
  readonly expected: string;
  readonly emulator?: string | undefined;
}

/** The four or five ways to call an operation on something that is leased, was leased, or was never leased. */
function casesOf(own: string, required: boolean, responses: typeof leaseResponses | typeof containerLeaseResponses, checksId = true): LeaseCase[] {
  const rejectedWith = (response: string): string => (checksId ? response : "passes");
  return [
    { name: "leased, no id", lease: "infinite", expected: required ? responses.missing : "passes" },
    { name: "leased, its id", lease: "infinite", leaseId: own, expected: "passes" },
    { name: "leased, another id", lease: "infinite", leaseId: anotherId, expected: rejectedWith(responses.mismatch) },
    { name: "never leased, an id", lease: "none", leaseId: own, expected: rejectedWith(responses.neverLeased) },
    {
      name: "expired, its id", lease: "expired", leaseId: own,
      expected: rejectedWith(responses.expired.azure), emulator: checksId ? responses.expired.azurite : undefined,
    },
    { name: "expired, no id", lease: "expired", expected: "passes" },
  ];
}

const leaseRequests = { none: 0, infinite: 1, expired: 2 } as const;

function blobLeaseChecks(): Check[] {
  return blobLeaseRows.flatMap((row) => {
    const { create, call } = blobCost(row.row);
    return casesOf(blobLeaseId, row.lease === "required", leaseResponses).map((each) => ({
      service: "blob",
      group: "Blobs under a lease",
      name: `${row.operation}: ${each.name}`,
      source: row.source ?? (each.lease === "expired" ? "recorded" : "documented"),
      helper: row.helper,
      expected: each.expected,
      emulator: each.name === "leased, no id" && row.azuriteLease === "optional" && row.lease === "required" ? "passes" : each.emulator,
      ...slowIf(each.lease === "expired"),
      requests: create + leaseRequests[each.lease] + call,
      run: (workspace) => runBlobCase(row, each, workspace),
    }));
  });
}

/** Checks of what has expired wait for it. */
function slowIf(slow: boolean): Pick<Check, "slow" | "polls"> {
  return slow ? { slow, polls: expiryPolls } : {};
}

async function runBlobCase({ row }: BlobLeaseRow, { lease, leaseId }: LeaseCase, workspace: Workspace): Promise<string> {
  const subject = await createBlob(row, workspace);
  await leaseFor(subject.block, blobLeaseId, lease, workspace);
  const { response, sent } = await exchange(() => row.call(subject, leaseId === undefined ? {} : { leaseId }));
  return outcome(response, row.passes) + (sent("x-ms-lease-id") === leaseId ? "" : " (the id is not sent as given)");
}

async function leaseFor(leasable: BlobClient | ContainerClient, id: string, lease: LeaseCase["lease"], workspace: Workspace): Promise<void> {
  if (lease === "none") return;
  await leasable.getBlobLeaseClient(id).acquireLease(lease === "expired" ? 15 : -1);
  if (lease === "expired") await untilExpired(leasable, workspace);
}

function containerLeaseChecks(): Check[] {
  return containerLeaseRows.flatMap((row) =>
    casesOf(containerLeaseId, row.lease === "required", containerLeaseResponses, row.sendsId).map((each) => ({
      service: "blob",
      group: "Containers under a lease",
      name: `${row.operation}: ${each.name}`,
      source: row.source ?? (each.lease === "expired" ? "believed" : "documented"),
      helper: row.helper,
      needsKey: isAccessPolicy(row),
      expected: each.expected,
      emulator: each.emulator,
      ...slowIf(each.lease === "expired"),
      requests: 1 + leaseRequests[each.lease] + 1 + removal.leased,
      run: (workspace) => runContainerCase(row, each, workspace),
    })),
  );
}

async function runContainerCase({ row, sendsId }: ContainerLeaseRow, { lease, leaseId }: LeaseCase, workspace: Workspace): Promise<string> {
  const container = await workspace.container({ leased: true });
  await leaseFor(container, containerLeaseId, lease, workspace);
  const conditions: object = leaseId === undefined ? {} : { leaseId };
  const { response, sent } = await exchange(() => row.call(container, conditions));
  return outcome(response, undefined) + (sent("x-ms-lease-id") === (sendsId ? leaseId : undefined) ? "" : " (the id is not sent as expected)");
}

const writeInLeasedContainer: Check = {
  service: "blob",
  group: "Containers under a lease",
  name: "Put Blob into it, no id",
  source: "documented",
  expected: "201",
  requests: 3 + removal.leased,
  run: async (workspace) => {
    const container = await workspace.container({ leased: true });
    await container.getBlobLeaseClient(containerLeaseId).acquireLease(-1);
    return (await exchange(() => container.getBlockBlobClient("blob").upload("x", 1))).response;
  },
};

function leaseActionChecks(): Check[] {
  return (["Blob", "Container"] as const).flatMap((kind) =>
    leaseActionRows.map((row) => ({
      service: "blob",
      group: `Lease ${kind}`,
      name: `${row.given}: ${row.operation}`,
      source: row.source ?? "documented",
      helper: row.helper,
      expected: row.response,
      emulator: row.azuriteResponse,
      ...slowIf(row.given === "expired"),
      requests: 1 + stateRequests[row.given] + 2 + (kind === "Container" ? removal.leased : 0),
      run: (workspace) => runLeaseAction(row, kind, workspace),
    })),
  );
}

const stateRequests = { available: 0, leased: 1, breaking: 2, broken: 2, expired: 2 } as const;

async function runLeaseAction({ given, operation, call }: LeaseActionRow, kind: "Blob" | "Container", workspace: Workspace): Promise<string> {
  const leasable = kind === "Container" ? await workspace.container({ leased: true }) : (await workspace.blobs()).getBlockBlobClient(workspace.name());
  if ("upload" in leasable) await leasable.upload("x", 1);
  if (given !== "available") await leasable.getBlobLeaseClient(ownId).acquireLease(given === "expired" ? 15 : 60);
  if (given === "breaking") await leasable.getBlobLeaseClient().breakLease(60);
  if (given === "broken") await leasable.getBlobLeaseClient().breakLease(0);
  if (given === "expired") await untilExpired(leasable, workspace);
  const { leaseState } = await leasable.getProperties();
  if (leaseState !== given) return `the lease is ${leaseState ?? "unknown"}`;
  const ask = async (): Promise<string> => (await exchange(() => call(leasable.getBlobLeaseClient(ownId), leasable.getBlobLeaseClient(otherId)))).response;
  // The service may keep an expired lease from others for a while.
  const mayWait = given === "expired" && operation === "acquire by another";
  return mayWait ? workspace.poll(ask, (response) => response === "201", expiryPolls * 1_000) : ask();
}

export const leaseChecks: readonly Check[] = [...leaseActionChecks(), ...containerLeaseChecks(), writeInLeasedContainer, ...blobLeaseChecks()];
