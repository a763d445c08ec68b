import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** A sample in a process of its own, as somebody without a terminal starts it. Disposing of it kills it. */
export interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

export function start(file: string, ...args: string[]): Started {
  const child = spawn(process.execPath, ["--import", "tsx", join(root, file), ...args], {
    cwd: root,
    // On an Azurite of its own. Colours that are forced upon others must not get into the output either.
    env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: "", NO_COLOR: "", FORCE_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, stdout, stderr }));
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return { child, output: () => stdout, ended, [Symbol.asyncDispose]: kill };
}

/** The processes that a process has started, and those that they have started. */
export function descendantsOf(pid: number): number[] {
  const parents = readdirSync("/proc").flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    try {
      // The name of the program, in parentheses, may have blanks in it.
      const [, parent] = readFileSync(`/proc/${entry}/stat`, "utf8").replace(/^.*\)\s/s, "").split(" ");
      return [{ pid: Number(entry), parent: Number(parent) }];
    } catch {
      return []; // It has ended meanwhile.
    }
  });
  const found = [pid];
  for (const ancestor of found) found.push(...parents.filter(({ parent }) => parent === ancestor).map((process_) => process_.pid));
  return found.slice(1);
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
