import type { Command } from "commander";
import type { LeasableLike } from "../../clients/leasable.js";
import { inspectLease } from "../../lock/inspect-lease.js";
import { contextOf } from "../connect.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, printProperties } from "../print.js";
import type { Terminal } from "../terminal.js";

interface LeaseOptions {
  container?: string;
  blob?: string;
  share?: string;
  file?: string;
}

/** `leases show`: the lease of a container, blob, share or file. */
export function addLeases(program: Command, terminal: Terminal): void {
  program
    .command("leases")
    .description("inspect leases of containers, blobs, shares and files")
    .command("show")
    .description("show the state of a lease")
    .option("-c, --container <name>", "name of the container")
    .option("-b, --blob <name>", "name of a blob in the container")
    .option("-s, --share <name>", "name of the share")
    .option("-f, --file <path>", "path of a file in the share")
    .action(async (options: LeaseOptions, command: Command) => {
      const context = contextOf(terminal, command);
      const { state, duration, holder, epoch, acquiredOn } = await inspectLease(await open(context, options));
      const lock = holder === undefined ? {} : { holder, epoch, acquiredOn, held: context.json ? undefined : ago(acquiredOn) };
      printProperties(context, { target: targetName(options), state, duration, ...lock });
    });
}

async function open({ account }: CommandContext, { container, blob, share, file }: LeaseOptions): Promise<LeasableLike> {
  if ((container === undefined) === (share === undefined) || (blob !== undefined && !container) || (file !== undefined && !share)) {
    throw new CommandError(exitCodes.usage, "Pass --container (with --blob for a blob in it) or --share (with --file for a file in it).");
  }
  if (container !== undefined) {
    const client = await account.container(container);
    return blob === undefined ? client : client.getBlobClient(blob);
  }
  const client = await account.share(share ?? "");
  return file === undefined ? client : client.rootDirectoryClient.getFileClient(file);
}

function targetName({ container, blob, share, file }: LeaseOptions): string {
  return [container ?? share, blob ?? file].filter((part) => part !== undefined).join("/");
}
