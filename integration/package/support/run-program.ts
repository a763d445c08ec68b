import { execFile } from "node:child_process";

export interface RunOptions {
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** A watchdog: longer than the program takes on a busy machine. */
  readonly timeoutInMs?: number | undefined;
}

/** What a program prints. Rejects with all that it said if it fails or takes longer than any of them should. */
export function runProgram(program: string, args: readonly string[], { cwd, env = process.env, timeoutInMs = 240_000 }: RunOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const limits = { timeout: timeoutInMs, killSignal: "SIGKILL", maxBuffer: 64 * 1024 * 1024 } as const;
    execFile(program, args, { cwd, env, ...limits }, (error, stdout, stderr) => {
      if (!error) {
        resolve(stdout);
        return;
      }
      const end = error.signal ? `was ended by ${error.signal}` : `ended with code ${String(error.code)}`;
      reject(new Error(`${program} ${args.join(" ")} ${end}\n${stdout}\n${stderr}`));
    });
  });
}
