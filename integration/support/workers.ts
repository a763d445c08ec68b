import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Options of {@link startWorker}. */
export interface WorkerOptions {
  /**
   * After this the worker is killed, and its result is an error.
   * @defaultValue 60_000
   */
  timeoutInMs?: number | undefined;
}

/** How a process ended. */
export interface WorkerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A worker that ended without a result. */
export class WorkerError extends Error {
  override readonly name = "WorkerError";
  readonly exit: WorkerExit;

  constructor(message: string, exit: WorkerExit) {
    super(message);
    this.exit = exit;
  }
}

const running = new Set<ChildProcess>();

// A stopped process does not notice that its parent has gone; a kill reaches it all the same.
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/**
 * Runs a TypeScript file in a process of its own. The file calls `runWorker`, which gets `config` (JSON) and returns
 * the result (JSON).
 */
export function startWorker<Result = unknown>(file: URL, config: unknown, options: WorkerOptions = {}): Worker<Result> {
  return new Worker<Result>(file, config, options.timeoutInMs ?? 60_000);
}

/** One worker for each configuration. */
export function startWorkers<Result = unknown>(
  file: URL,
  configs: readonly unknown[],
  options: WorkerOptions = {},
): Worker<Result>[] {
  return configs.map((config) => startWorker<Result>(file, config, options));
}

/** A process that a test has started. */
export class Worker<Result> implements AsyncDisposable {
  /** What the worker returned. Rejects with a {@link WorkerError} if it failed, was killed or took too long. */
  readonly result: Promise<Result>;
  readonly exited: Promise<WorkerExit>;
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #received: unknown[] = [];
  #wake: (() => void)[] = [];
  #ended = false;
  #stdout = "";
  #stderr = "";

  constructor(file: URL, config: unknown, timeoutInMs: number) {
    const path = fileURLToPath(file);
    this.#name = path.slice(path.lastIndexOf("/") + 1);
    this.#child = spawn(process.execPath, ["--import", "tsx", path, JSON.stringify(config ?? null)], {
      cwd: fileURLToPath(new URL("../..", import.meta.url)), // where tsx is installed
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    running.add(this.#child);
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => (this.#stdout += text));
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    this.#child.on("message", (message) => {
      this.#received.push(message);
      this.#wakeAll();
    });
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      this.#child.kill("SIGKILL");
    }, timeoutInMs);
    this.exited = this.#untilExit().finally(() => clearTimeout(timer));
    this.result = this.exited.then((exit) => this.#resultOf(exit, timedOut ? `took more than ${timeoutInMs} ms` : undefined));
    // A test may kill its worker and never ask for the result.
    this.result.catch(() => undefined);
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  send(message: object | string | number | boolean): void {
    this.#child.send(message, () => undefined);
  }

  /** The next message of the worker. Rejects if it ends without one. */
  async receive<M = unknown>(): Promise<M> {
    while (this.#received.length === 0) {
      if (this.#ended) throw this.#failure(await this.exited, "ended without a further message");
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
    return this.#received.shift() as M;
  }

  /** `SIGSTOP` freezes the process as a long pause of the machine would, `SIGCONT` lets it go on, `SIGKILL` ends it. */
  signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  /** Kills the worker if it still runs, and waits until it is gone. */
  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #untilExit(): Promise<WorkerExit> {
    try {
      // "close" comes after the last of stdout and stderr, and of the messages.
      const [code, signal] = (await once(this.#child, "close")) as [number | null, NodeJS.Signals | null];
      return { code, signal };
    } finally {
      running.delete(this.#child);
      this.#ended = true;
      this.#wakeAll();
    }
  }

  #resultOf(exit: WorkerExit, problem: string | undefined): Result {
    if (problem !== undefined || exit.code !== 0) throw this.#failure(exit, problem ?? "failed");
    try {
      return JSON.parse(this.#stdout.trimEnd().split("\n").at(-1) ?? "") as Result;
    } catch {
      throw this.#failure(exit, `gave no JSON as its last line: ${this.#stdout}`);
    }
  }

  #failure(exit: WorkerExit, problem: string): WorkerError {
    const end = exit.signal ? `signal ${exit.signal}` : `code ${exit.code ?? "none"}`;
    return new WorkerError(`worker ${this.#name} ${problem} (${end})\n${this.#stderr}`, exit);
  }

  #wakeAll(): void {
    const wake = this.#wake;
    this.#wake = [];
    for (const resolve of wake) resolve();
  }
}
