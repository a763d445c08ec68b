import { jsonBlob, optimisticUpdate } from "azure-storage-concurrency";

import type { Bench, BenchEnv } from "../harness.js";
import { isQuick } from "../pace.js";
import { startBlockMeter } from "../block-meter.js";

interface Document {
  n: number;
  filler: string[];
}

export const bigDocuments: Bench = {
  name: "big-documents",
  about: "many callers of one JSON document of 1 MB, against what each of as many callers of its own does without any request: bytes to text, parse, text, bytes; and the longest time in which the event loop stands still",
  async *run(env) {
    const callers = isQuick() ? 200 : 1_000;
    const content = new TextEncoder().encode(documentOf(1_000_000));
    const ours = await update(env, content, callers);
    const baseline = convertAll(content, callers);
    yield {
      name: `${callers} callers`,
      unit: "ms",
      ours: ours.elapsedInMs,
      baseline,
      bounds: [{ of: "ratio", atMost: 1.5 }],
    };
    // The conversions of one caller cannot be divided.
    yield { name: "longest block", unit: "ms", ours: ours.longestBlockInMs, baseline: convertAll(content, 20) / 20, bounds: [{ of: "ours", atMost: 50 }] };
  },
};

async function update(env: BenchEnv, content: Uint8Array, callers: number): Promise<{ elapsedInMs: number; longestBlockInMs: number }> {
  const blob = (await env.freshContainer()).getBlockBlobClient("document");
  await blob.upload(content, content.length);
  const target = jsonBlob<Document>(blob);
  const add = (document: Document): void => {
    document.n++;
  };
  for (let i = 0; i < 20; i++) await optimisticUpdate(target, add);
  const meter = startBlockMeter();
  const start = performance.now();
  await Promise.all(Array.from({ length: callers }, () => optimisticUpdate(target, add, { timeoutInMs: 120_000 }).then(() => undefined)));
  const elapsedInMs = performance.now() - start;
  const longestBlockInMs = meter.stop();
  const stored = JSON.parse((await blob.downloadToBuffer()).toString()) as Document;
  if (stored.n !== callers + 20) throw new Error(`${callers + 20} updates, but the counter says ${stored.n}`);
  return { elapsedInMs, longestBlockInMs };
}

/** What each caller of its own does between its two requests. */
function convertAll(content: Uint8Array, callers: number): number {
  const start = performance.now();
  let stored = content;
  for (let i = 0; i < callers; i++) {
    const document = JSON.parse(new TextDecoder().decode(stored)) as Document;
    document.n++;
    stored = new TextEncoder().encode(JSON.stringify(document));
  }
  return performance.now() - start;
}

/** A document of many small values, as services have them. */
function documentOf(bytes: number): string {
  const entry = "0123456789abcdef0123456789abcdef";
  return JSON.stringify({ n: 0, filler: Array.from({ length: Math.floor(bytes / (entry.length + 3)) }, () => entry) });
}
