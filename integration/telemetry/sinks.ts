import { format, inspect } from "node:util";

import { AzureLogger, setLogLevel } from "@azure/logger";

import type { RecordedSpans } from "./recorded-spans.js";

/** All that an operator, or whoever reads what an operator keeps, gets to see. Each entry says where it was seen. */
export class Sinks {
  readonly #seen: { readonly where: string; readonly text: string }[] = [];
  readonly #logBefore = AzureLogger.log;

  /** Everything that is logged from now on, at all levels, by the library and by the SDKs. */
  listenToLogs(): void {
    setLogLevel("verbose");
    AzureLogger.log = (...args: unknown[]) => this.note("log", format(...args));
  }

  stop(): void {
    setLogLevel(undefined);
    AzureLogger.log = this.#logBefore;
  }

  note(where: string, text: string): void {
    this.#seen.push({ where, text });
  }

  /** All of each span: name, attributes, events, status. */
  noteSpans(spans: RecordedSpans): void {
    for (const { name, attributes, events, status, links } of spans.all) {
      this.note(`span ${name}`, JSON.stringify({ name, attributes, events, status, links: links.map((link) => link.attributes) }));
    }
  }

  /**
   * An error, its causes, and those that it aggregates or suppresses, in every form in which programs print errors:
   * message, stack, `String`, `JSON.stringify` and `util.inspect`, of each of them, and its own fields.
   *
   * Not looked into are `request` and `response` of an SDK's `RestError`: they are there for programs, are not
   * enumerable, and hold the request as it was sent.
   */
  noteError(error: unknown, where: string, depth = 0): void {
    if (depth > 10 || typeof error !== "object" || error === null) {
      this.note(where, String(error));
      return;
    }
    const own = error as Error & { errors?: unknown[]; suppressed?: unknown };
    this.note(`${where} message`, own.message);
    this.note(`${where} stack`, String(own.stack));
    this.note(`${where} string`, String(own));
    this.note(`${where} json`, JSON.stringify(error));
    this.note(`${where} inspect`, inspect(error, { depth: 8 }));
    for (const name of Object.keys(own)) this.note(`${where} .${name}`, format((own as unknown as Record<string, unknown>)[name]));
    for (const next of [own.cause, own.suppressed, ...(own.errors ?? [])]) if (next !== undefined) this.noteError(next, `${where} > cause`, depth + 1);
  }

  get size(): number {
    return this.#seen.length;
  }

  count(where: string): number {
    return this.#seen.filter((entry) => entry.where.startsWith(where)).length;
  }

  /** Where a text was seen. */
  find(text: string, among: (where: string) => boolean = () => true): string[] {
    return this.#seen.filter((entry) => among(entry.where) && entry.text.includes(text)).map((entry) => `${entry.where}: ${around(entry.text, text)}`);
  }
}

function around(text: string, found: string): string {
  const at = text.indexOf(found);
  return text.slice(Math.max(0, at - 120), at + 20);
}
