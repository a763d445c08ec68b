import type { Command } from "commander";
import { checkName } from "../../schedule/schedule-options.js";
import { contextOf } from "../connect.js";
import { Dashboard } from "../dashboard/dashboard.js";
import { readPageFiles } from "../dashboard/page-files.js";
import { startServer } from "../dashboard/server.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { printOutcome, wholeNumber } from "../print.js";
import type { Terminal } from "../terminal.js";

interface DashboardFlags {
  readonly container: readonly string[];
  readonly prefix: string;
  readonly election: readonly string[];
  readonly queue: readonly string[];
  readonly table: readonly string[];
  readonly schedule: readonly string[];
  readonly interval: number;
  readonly port: number;
  readonly allowActions?: boolean;
}

const none: readonly string[] = [];

/** `dashboard`: a page in the browser, until Ctrl-C. */
export function addDashboard(program: Command, terminal: Terminal): void {
  program
    .command("dashboard")
    .description("show locks, schedules, queues, inboxes and outboxes on a page in the browser, until Ctrl-C")
    .option("-c, --container <name>", "container of locks; may be given several times", several, none)
    .option("--prefix <prefix>", "prefix of the blobs of the locks", "locks/")
    .option("--election <name>", "lock of a leader election, to show its leader; may be given several times", several, none)
    .option("-q, --queue <name>", "queue; may be given several times", several, none)
    .option("-t, --table <name>", "table of schedules, inboxes and outboxes; may be given several times", several, none)
    .option("--schedule <name>", 'name of a schedule in the tables; may be given several times (default: "default")', several, none)
    .option("--interval <seconds>", "how often it looks while the page is open", wholeNumber(1, 3_600), 5)
    .option("--port <number>", "port on 127.0.0.1 (default: a free one)", wholeNumber(0, 65_535), 0)
    .option("--allow-actions", "let the page break locks, redrive and delete poison messages, and trigger jobs")
    .action(async (flags: DashboardFlags, command: Command) => {
      const context = contextOf(terminal, command);
      if (flags.container.length + flags.queue.length + flags.table.length === 0) throw new CommandError(exitCodes.usage, "Pass what to show: --container, --queue or --table.");
      const schedules = flags.schedule.length === 0 ? ["default"] : unique(flags.schedule);
      for (const name of schedules) checkName("name", name);
      const files = await readPageFiles();
      const dashboard = new Dashboard(context.account, {
        containers: unique(flags.container),
        prefix: flags.prefix,
        elections: unique(flags.election),
        queues: unique(flags.queue),
        tables: unique(flags.table),
        schedules,
        intervalInMs: flags.interval * 1_000,
        allowActions: flags.allowActions ?? false,
      });
      try {
        const server = await startServer(dashboard, files, flags.port).catch((error: unknown) => {
          throw new CommandError(exitCodes.failed, `The port ${flags.port} cannot be used: ${(error as Error).message}`, { cause: error });
        });
        const interrupted = new Promise<void>((resolve) => {
          const offInterrupt = terminal.onInterrupt(() => {
            offInterrupt();
            resolve();
          });
        });
        printOutcome(context, `The dashboard is open until Ctrl-C, for all who have its address: ${server.url}`, { url: server.url });
        await interrupted;
        // A request to the account that is still in flight would keep the process from ending.
        terminal.endSoon();
        await server.stop();
      } finally {
        dashboard.stop();
      }
    });
}

function several(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

function unique(names: readonly string[]): readonly string[] {
  return [...new Set(names)];
}
