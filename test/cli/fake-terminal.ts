import type { Terminal } from "../../src/cli/terminal.js";

/** A terminal that remembers what it showed, with somebody in front of it who gives these answers; or nobody. */
export class FakeTerminal implements Terminal {
  readonly env: Record<string, string | undefined>;
  readonly interactive: boolean;
  readonly asked: string[] = [];
  stdout = "";
  stderr = "";
  readonly #answers: string[];

  constructor({ env = {}, answers }: { env?: Record<string, string | undefined>; answers?: string[] } = {}) {
    this.env = env;
    this.interactive = answers !== undefined;
    this.#answers = [...(answers ?? [])];
  }

  out(text: string): void {
    this.stdout += text;
  }

  /** How often it was cleared. What it showed before is kept. */
  cleared = 0;

  clear(): void {
    this.cleared++;
  }

  err(text: string): void {
    this.stderr += text;
  }

  interrupt: () => void = () => undefined;
  endsSoon = false;

  onInterrupt(listener: () => void): () => void {
    this.interrupt = listener;
    return () => {
      this.interrupt = () => undefined;
    };
  }

  endSoon(): void {
    this.endsSoon = true;
  }

  ask(question: string): Promise<string> {
    this.asked.push(question);
    return Promise.resolve(this.#answers.shift() ?? "");
  }
}
