import type { Operation } from "./checker.js";
import { findCounterexample, printCounterexample } from "./counterexample.js";
import { describeOperation } from "./describe.js";
import type { HistoryEvent, Input, Output } from "./history.js";
import { modelFor } from "./model.js";

/** The histories of all objects of a run. */
export class Recorder {
  readonly #calls = new Map<string, { object: string; operation: Operation<Input, Output> }>();
  /** How often the calls had each outcome. */
  readonly outcomes = new Map<string, number>();

  record(event: HistoryEvent): void {
    if (event.kind === "invoke") {
      const { id, object, process, input, at } = event;
      this.#calls.set(id, { object, operation: { process, input, output: undefined, invokedAt: at, returnedAt: Infinity } });
      return;
    }
    const call = this.#calls.get(event.id);
    if (!call) throw new Error(`call ${event.id} returned, but was never made`);
    const { op } = call.operation.input;
    if (event.kind === "unknown") {
      this.#count(`${op}: unknown, ${event.error}`);
      return;
    }
    const { output, at } = event;
    this.#calls.set(event.id, { ...call, operation: { ...call.operation, output, returnedAt: at } });
    this.#count(output.kind === "rejected" ? `${op}: ${output.error}` : `${op}: ${output.kind}`);
  }

  get operations(): number {
    return this.#calls.size;
  }

  get objects(): string[] {
    return [...new Set([...this.#calls.values()].map(({ object }) => object))];
  }

  historyOf(name: string): Operation<Input, Output>[] {
    return [...this.#calls.values()].filter(({ object }) => object === name).map(({ operation }) => operation);
  }

  #count(outcome: string): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
  }

  /** One text for each object whose history cannot be explained. */
  violations(): string[] {
    return this.objects.flatMap((name) => {
      const history = this.historyOf(name);
      const found = findCounterexample(modelFor, history);
      if (!found) return [];
      // What was seen afterwards often tells which of two contradicting calls was wrong.
      const later = history.filter(({ output, returnedAt }) => output && returnedAt > found.last.returnedAt).sort((a, b) => a.returnedAt - b.returnedAt);
      const lines = later.slice(0, 12).map(({ process, input, output }) => `  ${process.padEnd(8)}  ${describeOperation(input, output)}`);
      return [[`${name}: ${printCounterexample(modelFor, found, describeOperation)}`, "what returned next:", ...lines].join("\n")];
    });
  }
}
