import { findAzurite } from "./azurite-package.js";
import { launchAzurite } from "./azurite-process.js";
import { emulatorAccount, emulatorConnectionString, type StorageEndpoints } from "./connection-string.js";

/** Options of {@link startAzurite}. */
export interface StartAzuriteOptions {
  /** Gives up starting; the process is killed and the promise rejects with the signal's reason. No effect once started. */
  abortSignal?: AbortSignal | undefined;

  /**
   * How long Azurite may take until all three services listen. It takes about a second on an idle machine;
   * the default leaves room for a cold and busy one.
   * @defaultValue 30_000
   */
  startTimeoutInMs?: number | undefined;

  /**
   * The directory whose installed `azurite` package is used.
   * @defaultValue the working directory, then this library's own
   */
  resolveFrom?: string | undefined;

  /**
   * More of Azurite's command line flags, for example `["--loose"]`.
   * @defaultValue none
   */
  args?: readonly string[] | undefined;
}

/** A running Azurite. */
export interface Azurite extends StorageEndpoints, AsyncDisposable {
  /** Of the account `devstoreaccount1`, for all three services. */
  readonly connectionString: string;

  /** The id of the process. */
  readonly pid: number;

  /** Ends the process and waits until it is gone. All data is in memory and goes with it. Safe to call again. */
  stop(): Promise<void>;
}

/**
 * Starts an Azurite of its own, with the blob, queue and table services on free ports of 127.0.0.1 and all data in
 * memory. Needs the `azurite` package to be installed.
 *
 * Azurite never outlives this process, not even when it is killed with SIGKILL, and never keeps it from ending.
 *
 * @throws `AzuriteStartError` if it is not installed, exits early or does not listen in time.
 */
export async function startAzurite(options: StartAzuriteOptions = {}): Promise<Azurite> {
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
