import type { Account } from "../connect.js";
import { checksBeyond, checksOf } from "./all-checks.js";
import type { Check } from "./check.js";
import type { Service } from "./service.js";

/** A table of checks, as a dry run lists it. */
export interface PlannedGroup {
  readonly service: Service;
  readonly group: string;
  readonly checks: number;
  readonly requests: number;
  /** How many requests more at most, while checks wait for the clock of the service. */
  readonly upTo: number;
}

/** What a run leaves out, and why. */
export interface LeftOut {
  readonly service: Service;
  readonly what: string;
  readonly reason: string;
}

export interface Plan {
  readonly services: readonly Service[];
  readonly checks: readonly Check[];
  readonly groups: readonly PlannedGroup[];
  readonly leftOut: readonly LeftOut[];
  /** Of all checks, and of the run itself: the list of left-overs, and what the checks share. Without retries. */
  readonly requests: number;
  readonly upTo: number;
}

const never: readonly LeftOut[] = [
  { service: "queue", what: "Set Queue Service Properties", reason: "it would change settings of the account" },
  { service: "file", what: "files that an SMB client has open", reason: "it needs an SMB client" },
];

/** What a run on this account does. Sends no request. */
export function planFor(account: Account, services: readonly Service[]): Plan {
  const hasKey = account.settings.hasKey;
  const all = checksOf(services);
  const checks = all.filter((check) => hasKey || !check.needsKey);
  const withoutKey = groupsOf(all.filter((check) => !checks.includes(check)));
  const groups = groupsOf(checks);
  const leftOut = [
    ...never.filter(({ service }) => services.includes(service)),
    ...beyondGroups(services),
    ...withoutKey.map(({ service, group, checks: count }) => ({ service, what: `${group}: ${count} checks`, reason: "it needs a connection string with the account key" })),
  ];
  // One list for each service; all but queues share one container, table or share.
  const ofTheRun = services.reduce((sum, service) => sum + (service === "queue" ? 1 : 3), 0);
  return {
    services, checks, groups, leftOut,
    requests: groups.reduce((sum, { requests }) => sum + requests, ofTheRun),
    upTo: groups.reduce((sum, { upTo }) => sum + upTo, 0),
  };
}

/** The checks that need a service that this run does not check. */
function beyondGroups(services: readonly Service[]): LeftOut[] {
  const counts = new Map<string, { service: Service; group: string; missing: string; count: number }>();
  for (const { service, group, also = [] } of checksBeyond(services)) {
    const missing = also.filter((each) => !services.includes(each)).join(", ");
    const key = `${service} ${group} ${missing}`;
    counts.set(key, { service, group, missing, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()].map(({ service, group, missing, count }) => ({ service, what: `${group}: ${count} checks`, reason: `they also use the service ${missing}` }));
}

function groupsOf(checks: readonly Check[]): PlannedGroup[] {
  const groups = new Map<string, PlannedGroup>();
  for (const { service, group, requests, polls = 0 } of checks) {
    const key = `${service} ${group}`;
    const before = groups.get(key) ?? { service, group, checks: 0, requests: 0, upTo: 0 };
    groups.set(key, { service, group, checks: before.checks + 1, requests: before.requests + requests, upTo: before.upTo + polls });
  }
  return [...groups.values()];
}
