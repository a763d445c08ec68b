import { pathToFileURL } from "node:url";
import { say } from "./narrator.js";
import { openStorage } from "./storage.js";
import type { SampleStorage } from "./storage.js";

/** One scenario: a title, and what happens. */
export interface Sample {
  readonly title: string;
  readonly run: (storage: SampleStorage) => Promise<void>;
}

/** Runs a sample if its file is what was started, as in `node --import tsx samples/hot-counter.ts`. */
export async function runIfStarted(sample: Sample, fileUrl: string): Promise<void> {
  if (fileUrl !== pathToFileURL(process.argv[1] ?? "").href) return;
  const storage = await openStorage();
  try {
    say.title(sample.title);
    await sample.run(storage);
  } finally {
    await storage.close();
  }
}
