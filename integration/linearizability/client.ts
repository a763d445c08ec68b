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
  /** Resolves when the event cannot be lost any more, even if the process is killed. */
  readonly report: (event: HistoryEvent) => Promise<void>;
  /** Replaces the call of the library. Undefined: the outcome is unknown. */
  readonly perform?: (...args: Parameters<typeof perform>) => Promise<Output | undefined>;
}

/** Makes the next call. `known` is what the last call returned. */
export async function callOnce(client: Client, count: number, known: Known | undefined): Promise<Known | undefined> {
  const { name: object, process, random, library } = client;
  const id = `${object}.${process}.${count}`;
  const input = drawInput(random, client.object.kind, `${process}.${count}`, known);
  const stop = new AbortController();
  const options = drawOptions(random, stop);
  await client.report({ kind: "invoke", id, object, process, input, at: machineTime() });
  const outcome = await settled(client, input, options);
  const at = machineTime();
  clearTimeout(options.timer);
  const output = "output" in outcome ? outcome.output : stop.signal.aborted && outcome.error === stop.signal.reason ? undefined : outputOf(library, outcome.error, input);
  if (output) await client.report({ kind: "return", id, output, at });
  else await client.report({ kind: "unknown", id, error: nameOf("error" in outcome ? outcome.error : undefined) });
  return knownAfter(input, output);
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
  const timeoutInMs = chance < 0.08 ? random.between(5, 150) : 6_000;
  if (chance < 0.94) return { call: { timeoutInMs, coalesce }, timer: undefined };
  return { call: { timeoutInMs, coalesce, abortSignal: stop.signal }, timer: setTimeout(() => stop.abort(), random.between(1, 120)) };
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : String(error);
}
