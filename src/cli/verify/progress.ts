import type { Terminal } from "../terminal.js";
import type { CheckResult } from "./run-checks.js";

/** On stderr, as stdout has the result: one line that is rewritten on a terminal, and one line for every tenth part in a log. */
export class Progress {
  readonly #terminal: Terminal;
  readonly #total: number;
  #done = 0;
  #bad = 0;

  constructor(terminal: Terminal, total: number) {
    this.#terminal = terminal;
    this.#total = total;
  }

  report({ status }: CheckResult): void {
    this.#done++;
    if (status === "different" || status === "failed") this.#bad++;
    const text = `${this.#done} of ${this.#total} checks${this.#bad > 0 ? `, ${this.#bad} not as expected` : ""}`;
    if (this.#terminal.interactive) this.#terminal.err(`\r${text}`);
    else if (Math.floor((this.#done * 10) / this.#total) > Math.floor(((this.#done - 1) * 10) / this.#total)) this.#terminal.err(`${text}\n`);
  }

  end(): void {
    if (this.#terminal.interactive && this.#done > 0) this.#terminal.err("\n");
  }
}
