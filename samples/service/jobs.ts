/* The nightly job: closes the books of the day, once over all instances. */
import { BlobLocks, listEntities, Schedule } from "azure-storage-concurrency";
import type { Clients } from "./clients.js";
import { noTotals, regions, totalsKey } from "./orders.js";
import type { Totals } from "./orders.js";
import type { ServiceSettings } from "./settings.js";

/** The partition of the reports. Their row keys are the due times. */
export const reportsKey = "reports";

export function closingSchedule({ table, container }: Clients, { instance, closeEveryInMs }: Pick<ServiceSettings, "instance" | "closeEveryInMs">): Schedule {
  return new Schedule(table, new BlobLocks(container, { holder: instance }), {
    "close-books": {
      ...(closeEveryInMs === undefined ? { cron: "0 3 * * *", timeZone: "Europe/Berlin" } : { everyInMs: closeEveryInMs }),
      run: async ({ dueOn, commit, signal }) => {
        const totals = await Promise.all(regions.map((region) => readTotals(table, region, signal)));
        const sum = (of: keyof Totals): number => totals.reduce((total, each) => total + each[of], 0);
        // The report and "this due time is done" are one transaction: no due time has two reports, and none is left out after a crash.
        await commit(reportsKey, [["create", { rowKey: dueOn.toISOString(), orders: sum("orders"), paid: sum("paid"), revenue: sum("revenue"), by: instance }]]);
      },
    },
  }, { pollIntervalInMs: closeEveryInMs === undefined ? 15_000 : Math.min(15_000, closeEveryInMs) }); // prettier-ignore
}

async function readTotals(table: Clients["table"], region: string, abortSignal: AbortSignal): Promise<Totals> {
  try {
    return await table.getEntity<Totals & object>(region, totalsKey, { abortSignal });
  } catch (error) {
    if ((error as { statusCode?: unknown }).statusCode === 404) return noTotals;
    throw error;
  }
}

/** The newest reports first. */
export async function listReports(table: Clients["table"]): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const reports: Record<string, unknown>[] = [];
  for await (const { rowKey, orders, paid, revenue, by } of listEntities(table, { filter: `PartitionKey eq '${reportsKey}'` })) {
    reports.push({ dueOn: rowKey, orders, paid, revenue, by });
  }
  return reports.reverse();
}
