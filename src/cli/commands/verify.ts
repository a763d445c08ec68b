import type { Command } from "commander";
import { Option } from "commander";
import { Deadline } from "../../core/deadline.js";
import { inParallel } from "../../core/parallel.js";
import { codeOf, isUnauthorized, statusOf } from "../../core/storage-errors.js";
import { contextOf } from "../connect.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { printRows, printOutcome, wholeNumber } from "../print.js";
import { printable } from "../../errors.js";
import type { Terminal } from "../terminal.js";
import { planFor } from "../verify/plan.js";
import type { Plan, PlannedGroup } from "../verify/plan.js";
import { Progress } from "../verify/progress.js";
import { runChecks } from "../verify/run-checks.js";
import type { CheckResult } from "../verify/run-checks.js";
import { services as allServices } from "../verify/service.js";
import type { Service } from "../verify/service.js";
import { Workspace } from "../verify/workspace.js";
import type { Owned } from "../verify/workspace.js";

interface VerifyOptions {
  service?: Service[];
  emulator?: boolean;
  dryRun?: boolean;
  all?: boolean;
  timeout: number;
}

/** No run takes longer than the largest --timeout, an hour: what is older than two hours belongs to a run that was killed. */
const maxTimeoutInSeconds = 3_600;
const leftOverAgeInMs = 2 * maxTimeoutInSeconds * 1_000;

/** `verify`: asks the service for everything that the library relies on. */
export function addVerify(program: Command, terminal: Terminal): void {
  const collect = (service: Service, before: Service[] = []): Service[] => [...before, service];
  program
    .command("verify")
    .description("check on this account what the library relies on; uses containers, tables, queues and shares of its own")
    .addOption(new Option("--service <service>", "only this service; may be repeated").choices([...allServices]).argParser((text: string, before?: Service[]) => collect(serviceOf(text), before)))
    .option("--emulator", "the account is Azurite and the file-share server: accept what they are known to do otherwise")
    .option("--dry-run", "only list what would be done, and how many requests it costs")
    .option("--all", "also show checks with the expected result")
    .option("--timeout <seconds>", "end after so long", wholeNumber(1, maxTimeoutInSeconds), 900)
    .action(async (options: VerifyOptions, command: Command) => {
      // A request that the SDK sends again may get another response.
      const context = contextOf(terminal, command, { tries: 1 });
      const services = allServices.filter((service) => options.service?.includes(service) ?? true);
      const plan = planFor(context.account, services);
      if (options.dryRun) printPlan(context, plan);
      else await verify(context, plan, options);
    });
}

function serviceOf(text: string): Service {
  const found = allServices.find((service) => service === text);
  if (!found) throw new CommandError(exitCodes.usage, `--service must be one of ${allServices.join(", ")}`);
  return found;
}

function printPlan(context: CommandContext, { groups, leftOut, requests, upTo, checks }: Plan): void {
  if (context.json) {
    printOutcome(context, "", { checks: checks.length, requests, upTo: requests + upTo, groups, leftOut });
    return;
  }
  const columns = {
    service: ({ service }: PlannedGroup) => service,
    checks: (group: PlannedGroup) => group.checks,
    requests: (group: PlannedGroup) => group.requests,
    group: ({ group }: PlannedGroup) => group,
  };
  printRows(context, groups, columns, "Nothing to check.");
  for (const { what, reason } of leftOut) context.terminal.out(`Not checked: ${what}: ${reason}.\n`);
  context.terminal.out(`${checks.length} checks, ${requests} requests; up to ${requests + upTo} if the service ends leases late. Nothing was sent.\n`);
}

async function verify(context: CommandContext, plan: Plan, { emulator = false, all = false, timeout }: VerifyOptions): Promise<void> {
  const { terminal, account } = context;
  const deadline = new Deadline(timeout * 1_000, () => new CommandError(exitCodes.failed, `The time is over (--timeout ${timeout}).`));
  const offInterrupt = terminal.onInterrupt(() => deadline.abort(new CommandError(exitCodes.failed, "Interrupted.")));
  const workspace = new Workspace(account, deadline.signal);
  const progress = new Progress(terminal, plan.checks.length);
  let results: CheckResult[] = [];
  let left: readonly Owned[] = [];
  let failure: unknown;
  try {
    await openWorkspace(workspace, plan, terminal);
    results = await runChecks(plan.checks, workspace, { emulator, onResult: (result) => progress.report(result) });
  } catch (error) {
    failure = error;
  } finally {
    progress.end();
    left = await workspace.removeAll();
    offInterrupt();
    deadline.dispose();
  }
  const cut: unknown = deadline.signal.aborted ? deadline.signal.reason : undefined;
  // A request that gets no response would keep the process from ending.
  if (cut !== undefined) terminal.endSoon();
  if (results.length > 0) printResults(context, plan, results, left, all);
  for (const { kind, name } of left) terminal.err(`Could not remove the ${kind} ${name}: the next run will, after two hours.\n`);
  if (cut !== undefined || failure !== undefined) throw cut ?? failure;
  const bad = results.filter(({ status }) => status === "different" || status === "failed").length;
  if (bad > 0) throw new CommandError(exitCodes.failed, `${bad} of ${results.length} checks did not have the expected result.`);
  if (left.length > 0) throw new CommandError(exitCodes.failed, `${left.length} of the containers, tables, queues and shares of this run could not be removed.`);
}

async function openWorkspace(workspace: Workspace, { services }: Plan, terminal: Terminal): Promise<void> {
  try {
    await workspace.load(services);
    await removeLeftOvers(workspace, terminal);
    await workspace.open(services);
  } catch (error) {
    if (!isUnauthorized(error)) throw error;
    throw new CommandError(exitCodes.failed, `${codeOf(error) ?? statusOf(error) ?? ""}: the credentials do not allow to list, create or delete what a run works in. A SAS must be one of the account, for the services ${services.join(", ")}, all resource types (sco), and the permissions rwdlacup, with t for blobs.`, { cause: error });
  }
}

/** Removes what killed runs have left. What is younger may belong to a run that goes on, and is only named. */
async function removeLeftOvers(workspace: Workspace, terminal: Terminal): Promise<void> {
  const found: (Owned & { readonly startedOn: Date })[] = [];
  for await (const each of workspace.leftOvers()) found.push(each);
  const isOld = ({ startedOn }: { readonly startedOn: Date }): boolean => Date.now() - startedOn.getTime() > leftOverAgeInMs;
  for (const { kind, name, startedOn } of found.filter((each) => !isOld(each))) {
    terminal.err(printable(`Found the ${kind} ${name} of a run that began at ${startedOn.toISOString()}, and may not have ended.`) + "\n");
  }
  await inParallel(found.filter(isOld), 8, async (each) => {
    await workspace.remove(each);
    terminal.err(printable(`Removed the ${each.kind} ${each.name} of a run that was ended at or after ${each.startedOn.toISOString()}.`) + "\n");
  });
}

const statusWords = { ok: "ok", known: "known difference", different: "DIFFERENT", failed: "NO RESULT" } as const;

function printResults(context: CommandContext, plan: Plan, results: readonly CheckResult[], left: readonly Owned[], all: boolean): void {
  const order = new Map(plan.checks.map((check, index) => [check, index]));
  const sorted = [...results].sort((a, b) => (order.get(a.check) ?? 0) - (order.get(b.check) ?? 0));
  const rows = sorted.map(({ check: { service, group, name, source, helper, expected, emulator }, status, found }) => ({ service, group, name, status, expected, emulator, found, source, helper }));
  const count = (status: CheckResult["status"]): number => results.filter((result) => result.status === status).length;
  const summary = {
    planned: plan.checks.length, checked: results.length, ok: count("ok"), known: count("known"), different: count("different"), failed: count("failed"),
  };
  if (context.json) {
    printOutcome(context, "", { ...summary, results: rows, leftOut: plan.leftOut, left });
    return;
  }
  const shown = rows.filter(({ status }) => all || status !== "ok");
  type Shown = (typeof rows)[number];
  printRows(context, shown, {
    service: ({ service }: Shown) => service,
    check: ({ group, name }: Shown) => `${group}: ${name}`,
    result: ({ status }: Shown) => statusWords[status],
    expected: ({ expected }: Shown) => expected,
    found: ({ found }: Shown) => found,
    source: ({ source }: Shown) => source,
  }, "Everything is as expected.");
  for (const { what, reason } of plan.leftOut) context.terminal.out(`Not checked: ${what}: ${reason}.\n`);
  context.terminal.out(`${summary.checked} of ${summary.planned} checks: ${summary.ok} as expected, ${summary.known} known differences, ${summary.different} different, ${summary.failed} without a result.\n`);
}
