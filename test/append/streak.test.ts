import { expect, it } from "vitest";
import { appendExactlyOnce } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { before } from "../fakes/faults.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

const requestInMs = 20;

/** A log whose requests take their time, and how many records were appended before each pause in which no request was in flight. */
function busyLog(): { blob: FakeAppendBlob; restsAfter: number[] } {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put("");
  const restsAfter: number[] = [];
  let freeAt = Infinity;
  service.each("any", before(async () => {
    if (performance.now() > freeAt + requestInMs / 2) restsAfter.push(blob.stored!.blocks);
    await new Promise((resolve) => setTimeout(resolve, requestInMs));
    freeAt = performance.now();
  }));
  return { blob, restsAfter };
}

async function appendInTurn(blob: FakeAppendBlob, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await appendExactlyOnce(blob, `${i}\n`);
}

it("callers that append one record after the other leave other processes a chance after 16 blocks", async () => {
  const { blob, restsAfter } = busyLog();
  await inFakeTime(appendInTurn(blob, 40));
  expect(restsAfter).toEqual([16, 32]);
});

it("several such callers, too", async () => {
  const { blob, restsAfter } = busyLog();
  await inFakeTime(Promise.all([1, 2, 3].map(() => appendInTurn(blob, 40))));
  expect(restsAfter).toEqual([16, 32]);
});

it("more chances after another appender was first: it may be one of several that wait", async () => {
  const { blob, restsAfter } = busyLog();
  await inFakeTime(appendInTurn(blob, 1));
  blob.appendForeign("other\n");
  restsAfter.length = 0;
  await inFakeTime(appendInTurn(blob, 20));
  expect(restsAfter.length).toBeGreaterThanOrEqual(4);
});

it("no pause if there were pauses anyway", async () => {
  const { blob, restsAfter } = busyLog();
  for (let i = 0; i < 40; i++) {
    await inFakeTime(appendInTurn(blob, 1));
    await inFakeTime(new Promise((resolve) => setTimeout(resolve, 3 * requestInMs)));
  }
  expect(restsAfter).toHaveLength(39); // those between the calls, and no other
});
