import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { AzuriteStartError } from "./azurite-error.js";
import { launchAzurite } from "./azurite-process.js";
import { emulatorAccount, emulatorConnectionString } from "./connection-string.js";
import type { StorageEndpoints } from "./connection-string.js";

/** Options of {@link startAzurite}. */
export interface StartAzuriteOptions {
  /**
   * Cancels the start: the process is killed, and the promise rejects with the signal's reason. No effect once started.
   * @defaultValue none: the start is not cancelled
   */
  abortSignal?: AbortSignal | undefined;

  /**
   * How long Azurite may take until all three services listen. It takes about a second on an idle machine; the default is
   * sufficient for a busy one with cold caches.
   * @defaultValue 30_000
   */
  startTimeoutInMs?: number | undefined;

  /**
   * The directory whose installed `azurite` package is used.
   * @defaultValue the working directory, then this library's own
   */
  resolveFrom?: string | undefined;

  /**
   * Additional command line flags of Azurite, for example `["--loose"]`. Ports that are given replace the free ones, and a
   * `--location` keeps the data in that directory instead of in memory: {@link Azurite.stop} then lets Azurite save it.
   * @defaultValue none
   */
  args?: readonly string[] | undefined;
}

const optionNames: OptionNames<StartAzuriteOptions> = { abortSignal: 1, startTimeoutInMs: 1, resolveFrom: 1, args: 1 };

/** A running Azurite. */
export interface Azurite extends StorageEndpoints, AsyncDisposable {
  /** The connection string of the account `devstoreaccount1`, for all three services. */
  readonly connectionString: string;

  /** The id of the process. */
  readonly pid: number;

  /**
   * Ends the process, and waits for its exit. Data in memory is lost; without a `--location` this is all data. Idempotent.
   * @throws nothing: it also resolves if the process has ended already.
   */
  stop(): Promise<void>;
}

/**
 * Starts a new Azurite process, with the blob, queue and table services on free ports of 127.0.0.1 and all data in memory,
 * unless `args` say otherwise. Needs the `azurite` package to be installed.
 *
 * Azurite never outlives this process, not even when it is killed with SIGKILL, and never keeps it from ending.
 *
 * @throws {@link AzuriteStartError} if it is not installed, exits early or does not listen in time.
 */
export async function startAzurite(options: StartAzuriteOptions = {}): Promise<Azurite> {
  checkOptions("startAzurite", options, optionNames);
  const { abortSignal, startTimeoutInMs = 30_000, resolveFrom, args = [] } = options;
  abortSignal?.throwIfAborted();
  const { pid, addresses, stop } = await launchAzurite(findAzurite(resolveFrom), args, startTimeoutInMs, abortSignal);

  const endpoints: StorageEndpoints = {
    blobUrl: `${addresses.Blob}/${emulatorAccount.name}`,
    queueUrl: `${addresses.Queue}/${emulatorAccount.name}`,
    tableUrl: `${addresses.Table}/${emulatorAccount.name}`,
  };
  return {
    ...endpoints,
    connectionString: emulatorConnectionString(endpoints),
    pid,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/**
 * The path of the program of the installed `azurite` package.
 *
 * The working directory comes first: with strict package managers (pnpm, Yarn PnP), the user's project can resolve its own
 * development dependencies, and this library cannot.
 */
export function findAzurite(resolveFrom: string | undefined): string {
  const folders = resolveFrom === undefined ? [process.cwd(), dirname(fileURLToPath(import.meta.url))] : [resolve(resolveFrom)];
  let cause: unknown;
  for (const folder of folders) {
    try {
      // The file need not exist: it only determines where the resolution starts.
      const manifest = createRequire(join(folder, "any.js")).resolve("azurite/package.json");
      return join(dirname(manifest), programOf(manifest));
    } catch (error) {
      cause = error;
    }
  }
  throw new AzuriteStartError("AZURITE_NOT_INSTALLED", "azurite is not installed: npm i -D azurite", { cause });
}

function programOf(manifest: string): string {
  const { bin } = JSON.parse(readFileSync(manifest, "utf8")) as { bin: { azurite: string } };
  return bin.azurite;
}
