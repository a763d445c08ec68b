import { machineTime } from "../chaos/claims.js";
import type { Random } from "../chaos/random.js";
import type { HistoryEvent, Input, Output } from "./history.js";
import { type CallOptions, drawInput, type Known, knownAfter, type Library, type ObjectClients, outputOf, perform } from "./operations.js";

/** A caller that works on one object, one call after the other, and reports each. */
export interface Client {
  /** The object's name in the history. */
  readonly name: string;
  readonly object: ObjectClients;
  readonly library: Library;
  /** Unique in the run. */
  readonly process: string;
  readonly random: Random;
  readonly report: (event: HistoryEvent) => Promise<void>;
  /** Replaces the call of the library. Undefined: the outcome is unknown. */
  readonly perform?: (...args: Parameters<typeof perform>) => Promise<Output | undefined>;
}

/** A call that is about to be made. */
export interface NextCall {
  /** Must be reported before the call is made. */
  readonly invoked: HistoryEvent;
  /** Makes the call, reports how it ended, and returns what the client knows after it. */
  readonly make: () => Promise<Known | undefined>;
}

/** Draws the next call. `known` is what the last call returned. */
export function nextCall(client: Client, count: number, known: Known | undefined): NextCall {
  const { name: object, process, random, library } = client;
  const token = `${process}.${count}`;
  const id = `${object} ${token}`;
  const input = drawInput(random, client.object.kind, token, known);
  return {
    invoked: { kind: "invoke", id, object, process, input, at: machineTime() },
    make: async () => {
      const stop = new AbortController();
      const options = drawOptions(random, stop);
      const outcome = await settled(client, input, options);
      const at = machineTime();
      clearTimeout(options.timer);
      const isAborted = "error" in outcome && stop.signal.aborted && outcome.error === stop.signal.reason;
      const output = "output" in outcome ? outcome.output : isAborted ? undefined : outputOf(library, outcome.error, input);
      await client.report(output ? { kind: "return", id, output, at } : { kind: "unknown", id, error: "error" in outcome ? nameOf(outcome.error) : "no error" });
      return knownAfter(input, output);
    },
  };
}

async function settled({ library, object, perform: performOther = perform }: Client, input: Input, { call }: DrawnOptions): Promise<{ output: Output | undefined } | { error: unknown }> {
  try {
    return { output: await performOther(library, object, input, call) };
  } catch (error) {
    return { error };
  }
}

interface DrawnOptions {
  readonly call: CallOptions;
  readonly timer: NodeJS.Timeout | undefined;
}

/** Most callers wait; some have little time, and some abort. */
function drawOptions(random: Random, stop: AbortController): DrawnOptions {
  const coalesce = random.next() < 0.5;
  const chance = random.next();
  const timeoutInMs = chance < 0.08 ? random.between(5, 150) : 4_000;
  if (chance < 0.94) return { call: { timeoutInMs, coalesce }, timer: undefined };
  return { call: { timeoutInMs, coalesce, abortSignal: stop.signal }, timer: setTimeout(() => stop.abort(), random.between(1, 120)) };
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : String(error);
}
