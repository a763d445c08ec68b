import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { AzuriteStartError } from "./azurite-error.js";

type Service = "Blob" | "Queue" | "Table";

interface AzuriteProcess {
  readonly pid: number;
  /** Scheme, host and port of each service. */
  readonly addresses: Readonly<Record<Service, string>>;
  readonly stop: () => Promise<void>;
}

// The child holds one end of an IPC channel. The kernel closes the other end when this process ends, however it ends,
// so a SIGKILL of the test runner leaves no Azurite behind. A string and not a file: it is the same in source and in
// compiled code. The listener is added before Azurite loads, so that the death of the parent in between is noticed, too.
const bootstrap = `
  const exit = () => process.exit();
  process.once("disconnect", exit);
  process.once("SIGTERM", () => process.off("disconnect", exit).disconnect());
  const { dirname, join } = require("node:path");
  for (const service of ["queue", "blob"]) {
    try {
      require(join(dirname(process.argv[1]), service, "utils", "constants.js")).DEFAULT_GC_INTERVAL_MS = ${24 * 3_600_000};
    } catch {}
  }
  const { Server } = require("node:http");
  const close = Server.prototype.close;
  Server.prototype.close = function (...args) {
    const closed = close.apply(this, args);
    this.closeAllConnections();
    return closed;
  };
  require(process.argv[1]);
`;

// The bootstrap also postpones the garbage collection of queues, which runs every minute and can delete the text of a message
// that is being sent at that moment: every receive that includes it fails from then on, and hides other messages. And that of
// blobs, which runs after ten minutes: if these were busy, Azurite then does not respond for minutes. A server that closes also
// closes its idle connections: otherwise an orderly shutdown waits for the clients. So it does for the channel, which is no longer needed then.

// Idle connections live for an hour: after Azurite's own 5 seconds, it may close one that a client is about to reuse, and
// the client then sees a connection reset that no test has requested.
const keepAlive = ["--blobKeepAliveTimeout", "3600", "--queueKeepAliveTimeout", "3600", "--tableKeepAliveTimeout", "3600"];
const freePorts = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"];
const flags = ["--skipApiVersionCheck", "--disableTelemetry", "--silent"];

/** How long Azurite may take to write its data to the disk when it is stopped. */
const shutdownLimitInMs = 10_000;

const outputLimit = 8_192;

export async function launchAzurite(
  program: string,
  args: readonly string[],
  timeoutInMs: number,
  abortSignal: AbortSignal | undefined,
): Promise<AzuriteProcess> {
  const persistent = names(args, "--location") || names(args, "-l");
  const all = [...unlessNamed([...freePorts, ...keepAlive], args), ...flags, ...(persistent ? [] : ["--inMemoryPersistence"]), ...args];
  const child = spawn(process.execPath, ["--input-type=commonjs", "-e", bootstrap, "--", program, ...all], {
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    windowsHide: true,
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()).once("error", () => resolve()));
  const stop = async (): Promise<void> => {
    // Without this, a process that has nothing else to do would end here, before the exit is reported.
    child.ref();
    if (child.exitCode !== null || child.signalCode !== null) return exited;
    // An orderly shutdown saves what is in memory. Without a location, there is nothing to save.
    if (persistent) child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), persistent ? shutdownLimitInMs : 0);
    await exited;
    clearTimeout(timer);
  };

  try {
    const addresses = await untilListening(child, timeoutInMs, abortSignal);
    detachFromEventLoop(child);
    return { pid: child.pid ?? 0, addresses, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Of flags with a value each, those that the caller has not set. Azurite takes the first value of a flag that is there twice. */
function unlessNamed(pairs: readonly string[], args: readonly string[]): string[] {
  return pairs.filter((_, index) => !names(args, pairs[index - (index % 2)] ?? ""));
}

function names(args: readonly string[], flag: string): boolean {
  return args.some((arg) => arg === flag || arg.startsWith(`${flag}=`));
}

function untilListening(
  child: ChildProcess,
  timeoutInMs: number,
  abortSignal: AbortSignal | undefined,
): Promise<Readonly<Record<Service, string>>> {
  return new Promise((resolve, reject) => {
    let output = "";
    const found: Partial<Record<Service, string>> = {};

    const settle = (finish: () => void): void => {
      clearTimeout(timer);
      abortSignal?.removeEventListener("abort", onAbort);
      finish();
    };
    const fail = (code: "AZURITE_EXITED" | "AZURITE_START_TIMEOUT", message: string, cause?: unknown): void =>
      settle(() => reject(new AzuriteStartError(code, message, { output, cause })));
    const onAbort = (): void => settle(() => reject(abortSignal?.reason as Error));
    const onOutput = (chunk: Buffer): void => {
      // Read for as long as Azurite runs: a full pipe would block it.
      output = (output + chunk.toString()).slice(-outputLimit);
      for (const [, service, address = ""] of output.matchAll(/Azurite (\w+) service is successfully listening at (\S+)\s/g)) {
        found[service as Service] = address;
      }
      const { Blob, Queue, Table } = found;
      if (Blob !== undefined && Queue !== undefined && Table !== undefined) settle(() => resolve({ Blob, Queue, Table }));
    };

    const timer = setTimeout(() => fail("AZURITE_START_TIMEOUT", `azurite was not ready within ${timeoutInMs} ms`), timeoutInMs);
    abortSignal?.addEventListener("abort", onAbort, { once: true });
    child.stdout?.on("data", onOutput);
    child.stderr?.on("data", onOutput);
    child.once("error", (error) => fail("AZURITE_EXITED", "azurite could not be run", error));
    // "close" comes after the last output, "exit" need not.
    child.once("close", (code, signal) => fail("AZURITE_EXITED", `azurite exited (${signal ?? code ?? "unknown"}) before it was ready`));
  });
}

/** Lets this process end while Azurite runs; the channel then closes, and Azurite ends as well. */
function detachFromEventLoop(child: ChildProcess): void {
  child.unref();
  child.channel?.unref();
  for (const pipe of [child.stdout, child.stderr]) if (pipe instanceof Socket) pipe.unref();
}
