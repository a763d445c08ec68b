import { run } from "../../src/cli/run.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";

export interface RunningDashboard {
  readonly url: string;
  /** As Ctrl-C does. Resolves with the exit code. */
  stop(): Promise<number>;
}

/** Runs the command, and resolves when it has printed its address. */
export async function openDashboard(connectionString: string, ...args: string[]): Promise<RunningDashboard> {
  const terminal = new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: connectionString } });
  const print = terminal.out.bind(terminal);
  const printed = new Promise<void>((resolve) => {
    terminal.out = (text) => {
      print(text);
      resolve();
    };
  });
  const ended = run(["--json", "dashboard", ...args], terminal);
  await Promise.race([printed, ended]);
  if (terminal.stdout === "") throw new Error(`the dashboard has not started: ${terminal.stderr}`);
  const { url } = JSON.parse(terminal.stdout) as { url: string };
  return {
    url,
    stop: () => {
      terminal.interrupt();
      return ended;
    },
  };
}
