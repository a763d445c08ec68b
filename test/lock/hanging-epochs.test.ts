import { expect, it } from "vitest";
import { hang, status } from "../lease/fakes/answers.js";
import type { Answer } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { locksOn, run } from "./support.js";

useFakeClock();

/** From the first write of an epoch on, these writes and the reads after them are answered so. */
async function serverThatFails(write: Answer, readBack: Answer): Promise<FakeLeaseServer> {
  const server = new FakeLeaseServer();
  await run((await run(locksOn(server).acquire("a"))).release());
  let written = false;
  server.intercept = (operation) => {
    if (operation === "metadata") written = true;
    if (operation === "metadata") return write;
    return operation === "properties" && written ? readBack : undefined;
  };
  return server;
}

it("tryAcquire fails within 6.5 seconds if the write of the epoch and reading it back hang", async () => {
  const server = await serverThatFails(hang, hang);
  const began = performance.now();
  const attempt = outcomeOf(locksOn(server).tryAcquire("a").finally(() => expect(performance.now() - began).toBeLessThanOrEqual(6_500)));
  await pass(60_000);
  expect(attempt.error).toMatchObject({ name: "OperationTimeoutError", code: "OPERATION_TIMEOUT", cause: { name: "RequestTimeoutError" } });
});

it("tryAcquire rejects with the error of the SDK, and its status, if reading back the epoch is rejected", async () => {
  const server = await serverThatFails(status(503, "ServerBusy"), status(403, "AuthorizationFailure"));
  const attempt = outcomeOf(locksOn(server).tryAcquire("a"));
  await pass(60_000);
  expect(attempt.error).toMatchObject({ name: "RestError", statusCode: 403 });
});
