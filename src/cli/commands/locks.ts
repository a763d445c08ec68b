import type { Command } from "commander";
import { BlobLocks } from "../../lock/blob-locks.js";
import type { LockStatus } from "../../lock/lock-options.js";
import { contextOf } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, oneLine, printProperties, printOutcome, printRows, wholeNumber } from "../print.js";
import { confirm } from "../terminal.js";
import type { Terminal } from "../terminal.js";

interface LocksOptions {
  container: string;
  prefix?: string;
}

/** `locks list`, `locks show`, `locks break`, `locks purge`: the named locks of a container. */
export function addLocks(program: Command, terminal: Terminal): void {
  const locks = program.command("locks").description("inspect, break and delete named locks");

  withContainer(locks.command("list"))
    .description("list all locks that were used and not purged since")
    .option("--held", "only locks that are held")
    .action(async (options: LocksOptions & { held?: boolean }, command: Command) => {
      const context = contextOf(terminal, command);
      const shown: LockStatus[] = [];
      for await (const lock of (await openLocks(context, options)).list()) {
        if (isHeld(lock) || !options.held) shown.push(lock);
      }
      printRows(context, shown, columns, options.held ? "No lock is held." : "There are no locks.");
    });

  withContainer(locks.command("show"))
    .description("show one lock")
    .argument("<name>", "name of the lock")
    .action(async (name: string, options: LocksOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const { epoch, state, duration, holder, acquiredOn, data } = await (await openLocks(context, options)).inspect(name);
      if (!epoch && state === "available") throw new CommandError(exitCodes.notFound, `The lock ${quote(name)} was never used.`);
      printProperties(context, { name, state, duration, epoch, holder, acquiredOn, held: context.json ? undefined : ago(acquiredOn), data });
    });

  withContainer(locks.command("break"))
    .description("break a lock: its holder loses it, and the service rejects its writes")
    .argument("<name>", "name of the lock")
    .option("--epoch <number>", "only if the lock still has this epoch, as shown by list and show", wholeNumber(1))
    .option("--period <seconds>", "how long the holder may continue; it detects the break at its next renewal", wholeNumber(0, 60), 0)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (name: string, options: LocksOptions & BreakOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const locks = await openLocks(context, options);
      const inspected = await locks.inspect(name);
      if (!isHeld(inspected)) throw new CommandError(exitCodes.notFound, `No process holds the lock ${quote(name)}.`);
      const epoch = options.epoch ?? inspected.epoch;
      const holder = `${inspected.holder ?? "an unknown holder"}${inspected.acquiredOn ? `, ${ago(inspected.acquiredOn) ?? ""}` : ""}`;
      await confirm(terminal, `The lock ${quote(name)} (epoch ${inspected.epoch ?? "none"}) is held by ${holder}. The holder will lose it.`, options.yes ?? false);
      // Only from the holder that was shown: a process that acquired the lock while the user decided keeps it.
      const broken = await locks.break(name, { breakPeriodInSeconds: options.period, ...(epoch !== undefined && { expectedEpoch: epoch }) });
      if (!broken) throw new CommandError(exitCodes.changed, `The lock ${quote(name)} does not have epoch ${epoch ?? "none"} any more. Nothing was changed.`);
      printOutcome(context, `The lock ${quote(name)} of ${inspected.holder ?? "its holder"} was broken.`, { broken, ...inspected });
    });

  withContainer(locks.command("purge"))
    .description("delete locks that were not used for a while; epochs keep growing")
    .option("--older-than-days <number>", "how long they were not used", wholeNumber(0), 31)
    .option("-y, --yes", "do not ask for confirmation")
    .action(async (options: LocksOptions & PurgeOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const locks = await openLocks(context, options);
      const olderThanInMs = options.olderThanDays * 86_400_000;
      const olderThan = new Date(Date.now() - olderThanInMs);
      await confirm(terminal, `The locks of container ${options.container} that were not used since ${olderThan.toISOString()} will be deleted.`, options.yes ?? false);
      const { deleted, kept } = await locks.purge({ olderThanInMs });
      printOutcome(context, `${deleted} locks were deleted, ${kept} are in use.`, { deleted, kept, olderThan });
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
  name: (lock: LockStatus) => lock.name,
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

function isHeld({ state }: LockStatus): boolean {
  return state === "leased" || state === "breaking";
}

function quote(name: string): string {
  return JSON.stringify(name);
}
