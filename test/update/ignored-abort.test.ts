import { expect, test } from "vitest";

import { optimisticUpdate } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import type { Counter } from "../support/counter.js";
import { counterBlob, increment } from "../support/counter.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

test("a caller that leaves during a read does not reject the next caller, although the client ignores the abort", async () => {
  const { service, blob } = counterBlob();
  const begun = deferred();
  const answered = deferred();
  service.next("read", async (exchange) => {
    begun.resolve();
    await answered.promise;
    return exchange.serve();
  });
  const controller = new AbortController();
  const reason = new Error("the first caller left");
  const first = optimisticUpdate<Counter>(blob, increment, { abortSignal: controller.signal });
  first.catch(() => undefined);
  await begun.promise;
  controller.abort(reason);
  const second = optimisticUpdate<Counter>(blob, (doc) => {
    doc.n += 10;
  });
  answered.resolve();
  await inFakeTime(second);
  await expect(first).rejects.toBe(reason);
  expect(blob.json).toEqual({ n: 10 });
});
