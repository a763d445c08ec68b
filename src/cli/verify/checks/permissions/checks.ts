import { codeOf, statusOf } from "../../../../core/storage-errors.js";
import type { Check } from "../../check.js";
import { removal } from "../../check.js";
import type { Service } from "../../service.js";
import type { Workspace } from "../../workspace.js";
import { blobCases } from "./blob-cases.js";
import { kindsOf, limitTo, openClients, serviceOf } from "./case.js";
import type { Grants, Kind, PermissionCase } from "./case.js";
import { fileCases } from "./file-cases.js";
import { lockCases } from "./lock-cases.js";
import { queueCases } from "./queue-cases.js";
import { tableCases } from "./table-cases.js";

export const permissionCases: readonly PermissionCase[] = [...blobCases, ...lockCases, ...tableCases, ...queueCases, ...fileCases];

/** Runs the helper of a case with these permissions: `passes`, or the response of the service that it failed with. */
export async function runCase(each: PermissionCase, grants: Partial<Grants>, workspace: Workspace): Promise<string> {
  const clients = await openClients(kindsOf(each), workspace);
  await each.before?.(clients);
  try {
    await each.run(await limitTo(clients, grants, each));
    return "passes";
  } catch (error) {
    const rejection = rejectionOf(error);
    if (rejection === undefined) throw error;
    return `${statusOf(rejection) ?? ""} ${codeOf(rejection) ?? ""}`.trim();
  }
}

/** The error of the SDK, which may be the cause of one of the library. */
function rejectionOf(error: unknown): unknown {
  for (let at = error, depth = 0; at !== undefined && depth < 5; at = (at as Error).cause, depth++) {
    if (statusOf(at) !== undefined) return at;
  }
  return undefined;
}

const names: Readonly<Record<Kind, string>> = { container: "container", table: "table", ownTable: "table", queue: "queue", poisonQueue: "poison queue", share: "share" };

/** `rwc`, or `rau on the table, rwca on the container`. */
function described({ grants }: PermissionCase): string {
  const all = Object.entries(grants) as [Kind, string][];
  return all.map(([kind, letters]) => (all.length === 1 ? letters : `${letters} on the ${names[kind]}`)).join(", ");
}

function checkOf(each: PermissionCase): Check {
  const kinds = kindsOf(each);
  const [service, ...also] = [...new Set(kinds.map((kind) => serviceOf[kind]))] as [Service, ...Service[]];
  // Everything but the table of the run is created and removed for the check.
  const around = kinds.filter((kind) => kind !== "table").length * (1 + removal.plain);
  return {
    service,
    also,
    group: "Permissions",
    name: `${each.helper} with ${described(each)}`,
    source: "documented",
    helper: each.helper,
    expected: each.expected ?? "passes",
    emulator: each.emulator,
    requests: around + each.requests,
    slow: each.slow,
    needsKey: true,
    run: (workspace) => runCase(each, each.grants, workspace),
  };
}

/** Each helper with the permissions that docs/permissions.md names, in SAS that the run signs with the account key. */
export const permissionChecks: readonly Check[] = permissionCases.map(checkOf);
