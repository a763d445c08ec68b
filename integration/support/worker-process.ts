/** The side of a worker that runs in the process of its own. See `workers.ts` for the other one. */

/** The test that started this process. */
export interface WorkerParent {
  send(message: unknown): void;
  /** The next message, also one that came before it was asked for. */
  receive<M>(): Promise<M>;
}

/** Runs the worker: its configuration comes as an argument, its result goes out as the last line of stdout. */
export function runWorker<Config>(work: (config: Config, parent: WorkerParent) => Promise<unknown>): void {
  // The channel closes when the parent ends, however it ends: without it nobody waits for this process.
  process.once("disconnect", () => process.exit(1));
  const parent = listenToParent();
  const config = JSON.parse(process.argv[2] ?? "null") as Config;
  work(config, parent).then(
    (result) => process.stdout.write(`${JSON.stringify(result ?? null)}\n`, () => process.exit(0)),
    (error: unknown) => process.stderr.write(`${describe(error)}\n`, () => process.exit(1)),
  );
}

function listenToParent(): WorkerParent {
  const waiting: ((message: unknown) => void)[] = [];
  const early: unknown[] = [];
  process.on("message", (message) => {
    const next = waiting.shift();
    if (next) next(message);
    else early.push(message);
  });
  return {
    send: (message) => void process.send?.(message),
    receive: <M>() =>
      new Promise<M>((resolve) => {
        if (early.length > 0) resolve(early.shift() as M);
        else waiting.push(resolve as (message: unknown) => void);
      }),
  };
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
