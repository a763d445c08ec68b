import type { ContainerClient } from "@azure/storage-blob";
import type { Check } from "../check.js";
import { removal } from "../check.js";
import { exchange } from "../exchange.js";
import type { ContainerRow } from "../rows/container.js";
import { containerRows, leaseId } from "../rows/container.js";
import type { Trials } from "./conditions.js";
import { conditionChecks } from "./conditions.js";

const mayBeLeased = ({ operation }: ContainerRow): boolean => operation.startsWith("Lease");

/** The service does not accept a SAS for the access policies of a container. */
export const isAccessPolicy = ({ operation }: { readonly operation: string }): boolean => operation.endsWith("ACL");

/** How the table of container operations is tried; also on rows that say something else. */
export const containerTrials: Trials<ContainerRow> = {
  service: "blob",
  group: "Containers",
  source: "documented",
  needsKey: isAccessPolicy,
  cost: (row) => {
    const created = row.given === "missing" ? 0 : row.given === "leased" ? 3 : 2;
    return { around: created + (mayBeLeased(row) ? removal.leased : removal.plain), call: 1 };
  },
  prepare: async (row, workspace) => {
    const missing = row.given === "missing";
    const container = await workspace.container({ leased: mayBeLeased(row), missing });
    if (row.given === "leased") await container.getBlobLeaseClient(leaseId).acquireLease(-1);
    return {
      version: missing ? { etag: '"0x8D1111111111111"', lastModified: new Date() } : await versionOf(container),
      call: (conditions) => row.call(container, conditions),
      etag: async () => (await versionOf(container)).etag,
    };
  },
};

async function versionOf(container: ContainerClient): Promise<{ etag: string; lastModified: Date }> {
  const { etag = "", lastModified = new Date(0) } = await container.getProperties();
  return { etag, lastModified };
}

const recreated: Check = {
  service: "blob",
  group: "Containers",
  name: "Create Container: of the same name, right after the deletion",
  source: "documented",
  helper: "waits with its writes while a container is being deleted",
  expected: "409 ContainerBeingDeleted",
  emulator: "201",
  requests: 4,
  run: async (workspace) => {
    const container = await workspace.container();
    await container.delete();
    return (await exchange(() => container.create())).response;
  },
};

export const containerChecks: readonly Check[] = [...conditionChecks(containerRows, containerTrials), recreated];
