import type { TableClient } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import type { ShareClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import type { Service } from "../../service.js";
import { containerWith, queueWith, shareWith, tableWith } from "../../sas.js";
import type { Workspace } from "../../workspace.js";

/** What a helper works on. */
export interface Clients {
  readonly container: ContainerClient;
  readonly table: TableClient;
  /** For what reads a whole table: how many requests that costs depends on the other rows. */
  readonly ownTable: TableClient;
  readonly queue: QueueClient;
  readonly poisonQueue: QueueClient;
  readonly share: ShareClient;
}
export type Kind = keyof Clients;

/** The letters of a SAS for each resource, as docs/permissions.md names them. */
export type Grants<K extends Kind = Kind> = Readonly<Record<K, string>>;

/** The clients of one call. */
export type Given<K extends Kind> = Pick<Clients, K> & {
  /** A partition that nothing else uses: all checks share one table. */
  readonly partitionKey: string;
  readonly workspace: Workspace;
};

/** One row of docs/permissions.md. */
export interface PermissionCase<K extends Kind = Kind> {
  readonly helper: string;
  readonly grants: Grants<K>;
  /** Of `before` and `run`. */
  readonly requests: number;
  /** It waits, as what it works on must have an age. */
  readonly slow?: boolean | undefined;
  /** With all permissions. */
  readonly before?: ((all: Given<K>) => Promise<unknown>) | undefined;
  /** With these permissions and no others. */
  readonly run: (given: Given<K>) => Promise<unknown>;
  /** @defaultValue passes */
  readonly expected?: string | undefined;
  readonly emulator?: string | undefined;
  /**
   * `table`: a SAS of the table. `account`: one of the account that is valid for entities only. Azurite accepts no SAS of a table for a batch,
   * as the URL of a batch does not name the table.
   * @defaultValue account
   */
  readonly tableSas?: "table" | "account" | undefined;
  /** `account`: one of the account for containers, as a SAS of a container is not valid for its lease. @defaultValue container */
  readonly containerSas?: "container" | "account" | undefined;
  /** `account`: one of the account for queues, as a SAS of a queue is not valid for writing its metadata. @defaultValue queue */
  readonly queueSas?: "queue" | "account" | undefined;
  /** `account`: one of the account for shares, as a SAS of a share is not valid for its metadata. @defaultValue share */
  readonly shareSas?: "share" | "account" | undefined;
}

export const serviceOf: Readonly<Record<Kind, Service>> = { container: "blob", table: "table", ownTable: "table", queue: "queue", poisonQueue: "queue", share: "file" };

/** A case whose resources the compiler knows. */
export function permissionCase<K extends Kind>(each: PermissionCase<K>): PermissionCase {
  return each as unknown as PermissionCase;
}

export function kindsOf({ grants }: PermissionCase): readonly Kind[] {
  return Object.keys(grants) as Kind[];
}

/** Creates what a case works on: everything but a table is its own. */
export async function openClients(kinds: readonly Kind[], workspace: Workspace): Promise<Given<Kind>> {
  const clients: Partial<{ -readonly [name in Kind]: Clients[name] }> = {};
  for (const kind of kinds) {
    if (kind === "container") clients.container = await workspace.container();
    else if (kind === "table") clients.table = await workspace.table();
    else if (kind === "ownTable") clients.ownTable = await workspace.ownTable();
    else if (kind === "share") clients.share = await workspace.share();
    else clients[kind] = await workspace.queue();
  }
  return { ...(clients as Clients), partitionKey: workspace.name(), workspace };
}

/** The same clients, with nothing but these permissions. */
export async function limitTo(all: Given<Kind>, grants: Partial<Grants>, by: Pick<PermissionCase, "tableSas" | "containerSas" | "queueSas" | "shareSas">): Promise<Given<Kind>> {
  const { tableSas = "account", containerSas = "container", queueSas = "queue", shareSas = "share" } = by;
  const limited: Partial<{ -readonly [name in Kind]: Clients[name] }> = {};
  for (const [kind, letters] of Object.entries(grants) as [Kind, string][]) {
    if (kind === "container") limited.container = await containerWith(all.workspace.account, all.container, letters, containerSas);
    else if (kind === "table" || kind === "ownTable") limited[kind] = await tableWith(all.workspace.account, all[kind], letters, tableSas);
    else if (kind === "share") limited.share = await shareWith(all.workspace.account, all.share, letters, shareSas);
    else limited[kind] = await queueWith(all.workspace.account, all[kind], letters, queueSas);
  }
  return { ...all, ...limited };
}
