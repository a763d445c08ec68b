import { setTimeout as pause } from "node:timers/promises";
import { say } from "./narrator.js";
import type { Sample } from "./sample.js";
import { isTerminal, pin, print, printLast } from "./screen.js";
import { openStorage } from "./storage.js";
import type { SampleStorage } from "./storage.js";

/** What was seen of a sample. */
export interface Seen {
  readonly sample: Sample;
  readonly outcome: string;
  readonly elapsedInMs: number;
}

const breathInMs = 700;

/** What hangs is a failure too. Many times what the longest one takes. */
const limitInMs = 120_000;

/**
 * Runs samples one after the other, on a storage of their own. The first that fails ends it: the process exits with
 * code 1 and says which one it was.
 */
export async function runSamples(samples: readonly Sample[]): Promise<Seen[]> {
  const storage = await openStorage();
  const interrupted = closeOnInterrupt(storage);
  const seen: Seen[] = [];
  for (const [index, sample] of samples.entries()) {
    const place = samples.length > 1 ? `${index + 1}/${samples.length}  ` : "";
    say.heading(`${place}${sample.title}`, sample.helper);
    say.text(sample.plan);
    const started = performance.now();
    try {
      const outcome = await Promise.race([sample.run(storage), tooLong()]);
      if (interrupted()) return await never();
      say.result(outcome);
      say.text(sample.lesson);
      seen.push({ sample, outcome, elapsedInMs: performance.now() - started });
      // A person is reading along: most scenes are over faster than that.
      if (isTerminal && sample !== samples.at(-1)) await pause(breathInMs);
    } catch (error) {
      // An interrupted sample loses its storage in the middle; that is no failure.
      if (interrupted()) return await never();
      pin([]);
      print();
      print(`FAILED: ${place}${sample.name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
      print(`Run it alone: npm start -- ${sample.name}`);
      await storage.close();
      // Whatever the failed sample has left running must not keep the process alive.
      process.exit(1);
    }
  }
  await storage.close();
  return seen;
}

/** Ctrl-C removes what the samples have made, and ends; a second one ends at once. */
function closeOnInterrupt(storage: SampleStorage): () => boolean {
  let interrupted = false;
  for (const [signal, exitCode] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    process.once(signal, () => {
      interrupted = true;
      printLast("\nInterrupted.");
      // A real account may take its time to delete things, or be out of reach.
      void Promise.race([storage.close(), pause(10_000)]).finally(() => process.exit(exitCode));
    });
  }
  return () => interrupted;
}

async function tooLong(): Promise<never> {
  await pause(limitInMs, undefined, { ref: false });
  throw new Error(`took more than ${limitInMs / 1_000} s`);
}

/** The process is about to exit. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}
