import type { Command } from "commander";
import { BlobLocks } from "../../lock/blob-locks.js";
import type { LockStatus } from "../../lock/lock-options.js";
import { lockedRowsOf, tableLockName } from "../../lock/table-lock-name.js";
import { contextOf } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, oneLine, printProperties, printOutcome, printRows, wholeNumber } from "../print.js";
import { purgeShown } from "../purge.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";
import { runWatched, watchable } from "../watch.js";
import type { WatchOptions } from "../watch.js";

interface LocksOptions {
  container: string;
  prefix?: string;
}

/** `locks list`, `locks show`, `locks break`, `locks purge`: the named locks of a container. */
export function addLocks(program: Command, terminal: Terminal): void {
  const locks = program.command("locks").description("inspect, break and delete named locks");

  watchable(withContainer(locks.command("list")))
    .description("list all locks that were used and not purged since")
    .option("--held", "only locks that are held")
    .option("--name-prefix <text>", "only locks whose names begin with the text")
    .action((options: LocksOptions & WatchOptions & { held?: boolean; namePrefix?: string }, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        const shown: LockStatus[] = [];
        for await (const lock of (await openLocks(context, options)).list({ prefix: options.namePrefix })) {
          if (isHeld(lock) || !options.held) shown.push(lock);
        }
        // For programs, the parts of the name as well.
        const rows = context.json ? shown.map((lock) => ({ ...lock, ...lockedRowsOf(lock.name) })) : shown;
        printRows(context, rows, columns, options.held ? "No lock is held." : "There are no locks.");
      }));

  watchable(withName(locks.command("show")))
    .description("show one lock")
    .action((given: string | undefined, options: NamedOptions & WatchOptions, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        const name = await nameOf(given, options);
        const { epoch, state, duration, holder, acquiredOn, data } = await (await openLocks(context, options)).inspect(name);
        if (!epoch && state === "available") throw new CommandError(exitCodes.notFound, `The ${describeLock(name)} was never used.`);
        printProperties(context, { name, ...lockedRowsOf(name), state, duration, epoch, holder, acquiredOn, held: context.json ? undefined : ago(acquiredOn), data });
      }));

  withName(locks.command("break"))
    .description("break a lock: its holder loses it, and the service rejects its writes")
    .option("--epoch <number>", "only if the lock still has this epoch, as shown by list and show", wholeNumber(1))
    .option("--period <seconds>", "how long the holder may continue; it detects the break at its next renewal", wholeNumber(0, 60), 0)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (given: string | undefined, options: NamedOptions & BreakOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const name = await nameOf(given, options);
      const locks = await openLocks(context, options);
      const inspected = await locks.inspect(name);
      if (!isHeld(inspected)) throw new CommandError(exitCodes.notFound, `No process holds the ${describeLock(name)}.`);
      const holder = `${inspected.holder ?? "an unknown holder"}${inspected.acquiredOn ? `, ${ago(inspected.acquiredOn) ?? ""}` : ""}`;
      await confirm(terminal, `The ${describeLock(name)} (epoch ${inspected.epoch ?? "none"}) is held by ${holder}. The holder will lose it.`, options.yes ?? false);
      // Only from the holder that was shown: a process that acquired the lock while the user decided keeps it. Without a record there is
      // no epoch, but the next holder writes one, and the ETag changes.
      const { epoch: expectedEpoch = inspected.epoch, period } = options;
      const broken = await locks.break(name, { breakPeriodInSeconds: period, expectedEpoch, expectedEtag: inspected.etag });
      if (!broken) throw new CommandError(exitCodes.changed, `The ${describeLock(name)} is not as it was shown any more (epoch ${expectedEpoch ?? "none"}). Nothing was changed.`);
      printOutcome(context, `The ${describeLock(name)} of ${inspected.holder ?? "its holder"} was broken.`, { broken, ...inspected });
    });

  withContainer(locks.command("purge"))
    .description("delete locks that were not used for a while; epochs keep growing")
    .option("--older-than-days <number>", "how long they were not used", wholeNumber(0), 31)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (options: LocksOptions & PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const locks = await openLocks(context, options);
      const question = `The locks of container ${options.container} that were not used since`;
      await purgeShown(context, { noun: "lock", question, olderThanInMs: options.olderThanDays * 86_400_000, yes: options.yes }, (olderThanInMs) => locks.purge({ olderThanInMs }));
    });
}

interface BreakOptions {
  epoch?: number;
  period: number;
  yes?: boolean;
}

interface PurgeOptions {
  olderThanDays: number;
  yes?: boolean;
}

const columns = {
  name: ({ name }: LockStatus) => (lockedRowsOf(name) ? describeLock(name) : name),
  state: (lock: LockStatus) => lock.state,
  epoch: (lock: LockStatus) => lock.epoch,
  holder: (lock: LockStatus) => (isHeld(lock) ? lock.holder : undefined),
  since: (lock: LockStatus) => (isHeld(lock) ? ago(lock.acquiredOn) : undefined),
  data: (lock: LockStatus) => (isHeld(lock) ? oneLine(lock.data) : undefined),
};

function withContainer(command: Command): Command {
  return command.requiredOption("-c, --container <name>", "container of the locks").option("--prefix <prefix>", "prefix of their blobs", "locks/");
}

async function openLocks(context: ReturnType<typeof contextOf>, { container, prefix }: LocksOptions): Promise<BlobLocks> {
  return new BlobLocks(await context.account.container(container), { prefix });
}

export function isHeld({ state }: Pick<LockStatus, "state">): boolean {
  return state === "leased" || state === "breaking";
}

/** By a name, or by what a `TableLock` locks. */
interface NamedOptions extends LocksOptions {
  table?: string;
  partition?: string;
  row?: string;
}

function withName(command: Command): Command {
  return withContainer(command)
    .argument("[name]", "name of the lock")
    .option("--table <name>", "instead of a name: the lock of a table, by a TableLock")
    .option("--partition <key>", "of this partition of the table")
    .option("--row <key>", "of this row of the partition");
}

async function nameOf(name: string | undefined, { table, partition, row }: NamedOptions): Promise<string> {
  const isTable = table !== undefined && (row === undefined || partition !== undefined);
  if (name !== undefined ? (table ?? partition ?? row) !== undefined : !isTable) {
    throw new CommandError(exitCodes.usage, "Pass the name of the lock, or --table with --partition for a partition, and --row for an entity of it.");
  }
  return name ?? tableLockName({ table: table ?? "", partitionKey: partition, rowKey: row });
}

/** The lock of a table has a name for programs. */
export function describeLock(name: string): string {
  const rows = lockedRowsOf(name);
  if (!rows) return `lock ${JSON.stringify(name)}`;
  const keys = [["partition", rows.partitionKey], ["row", rows.rowKey]] as const;
  return [`table ${rows.table}`, ...keys.flatMap(([what, key]) => (key === undefined ? [] : [`${what} ${JSON.stringify(key)}`]))].join(", ");
}
