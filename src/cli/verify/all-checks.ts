import type { Check } from "./check.js";
import type { Service } from "./service.js";
import { batchChecks } from "./checks/batches.js";
import { blobChecks } from "./checks/blobs.js";
import { containerChecks } from "./checks/containers.js";
import { contenderChecks } from "./checks/contenders.js";
import { fileContentChecks } from "./checks/file-content.js";
import { fileChecks } from "./checks/files.js";
import { leaseTimingChecks } from "./checks/lease-timing.js";
import { leaseChecks } from "./checks/leases.js";
import { permissionChecks } from "./checks/permissions/checks.js";
import { queueChecks } from "./checks/queues.js";
import { sendChecks } from "./checks/sends.js";
import { tableChecks } from "./checks/tables.js";

/** All checks of a run. */
export const allChecks: readonly Check[] = [
  ...containerChecks, ...blobChecks, ...leaseChecks, ...leaseTimingChecks,
  ...tableChecks, ...batchChecks, ...queueChecks,
  ...fileChecks, ...fileContentChecks,
  ...contenderChecks, ...sendChecks, ...permissionChecks,
];

/** The checks that use these services, and no others. */
export function checksOf(services: readonly Service[]): readonly Check[] {
  return allChecks.filter(({ service, also = [] }) => [service, ...also].every((each) => services.includes(each)));
}

/** The checks of these services that use another one, too. */
export function checksBeyond(services: readonly Service[]): readonly Check[] {
  const within = checksOf(services);
  return allChecks.filter((check) => services.includes(check.service) && !within.includes(check));
}
