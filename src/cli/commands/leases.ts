import type { Command } from "commander";
import type { LeasableLike } from "../../clients/leasable.js";
import { inspectLease, leaseInfo } from "../../lock/inspect-lease.js";
import type { LeaseInfo } from "../../lock/inspect-lease.js";
import { parseLockRecord } from "../../lock/lock-record.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, oneLine, printProperties, printRows } from "../print.js";
import type { Terminal } from "../terminal.js";
import { runWatched, watchable } from "../watch.js";
import type { WatchOptions } from "../watch.js";

interface LeaseOptions {
  container?: string;
  blob?: string;
  share?: string;
  file?: string;
}

/** `leases list`, `leases show`: the leases of containers, blobs, shares and files. */
export function addLeases(program: Command, terminal: Terminal): void {
  const leases = program.command("leases").description("inspect leases of containers, blobs, shares and files");

  watchable(leases.command("list"))
    .description("list what is leased in a container: the container itself, and its blobs")
    .requiredOption("-c, --container <name>", "name of the container")
    .option("--blob-prefix <text>", "only blobs whose names begin with the text")
    .action((options: ListOptions, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        const container = await context.account.container(options.container);
        const leased: LeasedItem[] = [];
        const add = (item: LeasedItem): void => {
          if (item.state === "leased" || item.state === "breaking") leased.push(item);
        };
        if (options.blobPrefix === undefined) add(itemOf(options.container, await inspectLease(container)));
        for await (const { name, metadata, properties } of container.listBlobsFlat({ ...(options.blobPrefix !== undefined && { prefix: options.blobPrefix }), includeMetadata: true })) {
          add(itemOf(`${options.container}/${name}`, leaseInfo(properties, parseLockRecord(metadata))));
        }
        printRows(context, leased, {
          target: ({ target }) => target,
          state: ({ state }) => state,
          duration: ({ duration }) => duration,
          holder: ({ holder }) => oneLine(holder, 40),
          since: ({ acquiredOn }) => ago(acquiredOn),
        }, "Nothing is leased.");
      }));

  watchable(leases.command("show"))
    .description("show the state of a lease")
    .option("-c, --container <name>", "name of the container")
    .option("-b, --blob <name>", "name of a blob in the container")
    .option("-s, --share <name>", "name of the share")
    .option("-f, --file <path>", "path of a file in the share")
    .action((options: LeaseOptions & WatchOptions, command: Command) =>
      runWatched(terminal, command, options, async (context) => {
        const { state, duration, holder, epoch, acquiredOn } = await inspectLease(await open(context, options));
        const lock = holder === undefined ? {} : { holder, epoch, acquiredOn, held: context.json ? undefined : ago(acquiredOn) };
        printProperties(context, { target: targetName(options), state, duration, ...lock });
      }));
}

interface ListOptions extends WatchOptions {
  container: string;
  blobPrefix?: string;
}

type LeasedItem = Pick<LeaseInfo, "state" | "duration" | "holder" | "acquiredOn" | "epoch"> & { readonly target: string };

/** The record of a lock stays when the lock is released: its holder is not that of a lease which another program has acquired since, but there is no way to tell. */
function itemOf(target: string, { state, duration, holder, acquiredOn, epoch }: LeaseInfo): LeasedItem {
  return { target, state, duration, holder, acquiredOn, epoch };
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
