import type { BlockBlobClient } from "@azure/storage-blob";
import type { Check } from "../check.js";
import type { Service } from "../service.js";
import type { Exchange } from "../exchange.js";
import { rejected } from "../exchange.js";
import type { Key } from "../rows/table.js";
import type { Workspace } from "../workspace.js";

/** A check without what its group has in common. */
export type Part = Omit<Check, "service" | "group" | "source"> & Partial<Pick<Check, "source">>;

/** The checks of a group. @defaultValue documented */
export function groupOf(service: Service, group: string, parts: readonly Part[]): Check[] {
  return parts.map((part) => ({ source: "documented", ...part, service, group }));
}

/** `passes`, or the response. */
export function resultOf({ response }: Exchange): string {
  return /^2\d\d$/.test(response) ? "passes" : response;
}

/** The same for a call of the table SDK, which returns no response. */
export async function tableResult(call: () => Promise<unknown>): Promise<string> {
  try {
    await call();
    return "passes";
  } catch (error) {
    return rejected(error).response;
  }
}

/** A client of a blob that does not exist yet. */
export async function newBlob(workspace: Workspace): Promise<BlockBlobClient> {
  return (await workspace.blobs()).getBlockBlobClient(workspace.name());
}

/** The key of an entity that does not exist yet, alone in its partition. */
export function newKey(workspace: Workspace): Key {
  return { partitionKey: workspace.name(), rowKey: "row" };
}
