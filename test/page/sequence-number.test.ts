import { expect, it } from "vitest";
import { SequenceNumber } from "../../src/page/sequence-number.js";
import type { RequestContext } from "../../src/target/target.js";
import { FakePageBlob } from "../fakes/fake-page-blob.js";
import { FakeService } from "../fakes/fake-service.js";

function contextOf(abortSignal: AbortSignal): RequestContext {
  return { abortSignal, tryLimit: { timeoutInMs: () => 1_000 }, primaryOnly: true, tracingOptions: undefined, leaseId: undefined, journalName: "j" };
}

it("a request is recorded before it is sent: once its call is aborted, the next write has another number, even if no end was reported", async () => {
  const service = new FakeService();
  const number = new SequenceNumber(new FakePageBlob(service), 0);
  const caller = new AbortController();
  const straggler = await number.begin(contextOf(caller.signal));
  caller.abort();
  const next = await number.begin(contextOf(new AbortController().signal));
  expect(next.number).toBeGreaterThan(straggler.number);
  number.end(straggler, false);
  number.end(next, true);
  expect((await number.begin(contextOf(new AbortController().signal))).number).toBe(next.number);
  expect(service.operations).toEqual(["getProperties", "updateSequenceNumber"]);
});
