import { pathToFileURL } from "node:url";
import { runSamples } from "./run-samples.js";
import type { SampleStorage } from "./storage.js";

/** One scenario: what it is about, and what happens. */
export interface Sample {
  /** The name of its file, by which it is started alone. */
  readonly name: string;
  readonly title: string;
  /** What of the library it shows. */
  readonly helper: string;
  /** The page of the documentation to read next, with its heading: `docs/queues.md#inboxes`. */
  readonly section: string;
  /** What will happen. */
  readonly plan: string;
  /** Why it matters. */
  readonly lesson: string;
  /** Gives back what was seen, in one line. Throws if that is not what was promised. */
  readonly run: (storage: SampleStorage) => Promise<string>;
}

/** Runs a sample if its file is what was started, as in `node --import tsx samples/hot-counter.ts`. */
export async function runIfStarted(sample: Sample, fileUrl: string): Promise<void> {
  if (fileUrl === pathToFileURL(process.argv[1] ?? "").href) await runSamples([sample]);
}
