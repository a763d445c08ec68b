/* The instances of the demo: processes of their own, which can be asked to end, or killed. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("./main.ts", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Instance {
  readonly name: string;
  readonly url: string;
  /** As an orchestrator does it: SIGTERM, and SIGKILL if it takes too long. Resolves with the exit code. */
  stop(): Promise<number | null>;
  /** `kill -9`: nothing that it does is finished. */
  kill(): Promise<void>;
}

/** Starts an instance, and resolves when it takes requests. */
export async function startInstance(name: string, env: Readonly<Record<string, string>>): Promise<Instance> {
  const child = spawn(process.execPath, ["--import", "tsx", main], {
    cwd: root,
    env: { ...process.env, ...env, SHOP_INSTANCE: name },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const exited = once(child, "exit").then(([code]) => code as number | null);
  const url = await Promise.race([firstMessage(child), exited.then((code) => Promise.reject(new Error(`${name} has ended with code ${code ?? "none"} before it was ready`)))]);
  return {
    name,
    url,
    stop: async () => {
      child.kill("SIGTERM");
      const overdue = setTimeout(() => child.kill("SIGKILL"), 30_000);
      const code = await exited;
      clearTimeout(overdue);
      return code;
    },
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function firstMessage(child: ChildProcess): Promise<string> {
  const [message] = (await once(child, "message")) as [{ url: string }];
  return message.url;
}
