import { expect, it } from "vitest";
import { optimisticUpdate } from "../../src/index.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

/** From Node 24 on, the async context costs nothing: it is there from the first run. */
const runs = Number.parseInt(process.versions.node, 10) >= 24 ? 0 : 1;

// A file of its own: once an async mutator has run in the process, every nested update is recognised on the first run.
it("a nested update in the promise of a mutator that is not an async function is recognised when the mutator runs again, from Node 24 at once", async () => {
  const { service, blob } = counterBlob();
  const later = (doc: Counter): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, 1))
      .then(() => optimisticUpdate<Counter>(blob, increment))
      .then(() => void (doc["outer"] = true));
  const error = await rejection(inFakeTime(optimisticUpdate<Counter>(blob, later)));
  expect(error).toBeInstanceOf(TypeError);
  expect(error.message).toMatch(/inside the function of optimisticUpdate/);
  expect(blob.json).toEqual({ n: runs });
  expect(service.count("upload")).toBe(runs);
});
