import { describe, expect, it, vi } from "vitest";

import { enqueue, redrive } from "../../src/index.js";
import { Bench } from "./fakes/consume.js";

const bench = new Bench();
const often = { minPollIntervalInMs: 100, maxPollIntervalInMs: 100, retryDelayInMs: 0, visibilityTimeoutInSeconds: 2 };

describe("an envelope that is nested too deeply to be written again", () => {
  const nested = (more = ""): string => `{"asc":1,"body":${"[".repeat(30_000)}${"]".repeat(30_000)}${more}}`;

  it("is moved to the poison queue as it is", async () => {
    await bench.queue.sendMessage(nested());
    await bench.consume(() => undefined, often);
    await bench.pass(10_000);
    expect(bench.queue.messages).toEqual([]);
    expect(bench.poisonQueue.messages).toMatchObject([{ text: nested() }]);
    expect(bench.names).toEqual(["poisoned"]);
  });

  it("does not keep other messages from being redriven", async () => {
    await bench.poisonQueue.sendMessage(nested(`,"failures":3`));
    await bench.poisonQueue.sendMessage("other");
    await expect(redrive(bench.poisonQueue, bench.queue)).resolves.toEqual({ moved: 1, skipped: 1 });
  });
});

describe("a handler that does not await extend", () => {
  it("does not cause an unhandled rejection after its end", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    await enqueue(bench.queue, "p");
    await bench.consume((_payload, { extend }) => void setTimeout(() => void extend(), 1_000), often);
    await bench.pass(5_000);
    vi.useRealTimers();
    await new Promise((resolve) => setImmediate(resolve));
    vi.useFakeTimers();
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });
});

describe("a thrown value that cannot be read", () => {
  const unreadable = {
    get name(): string {
      throw new Error("no name");
    },
  };
  const revocable = Proxy.revocable({}, {});
  revocable.revoke();

  it.each([["a getter that throws", unreadable], ["a revoked proxy", revocable.proxy]])("is a failure like any other: %s", async (_, thrown) => {
    await enqueue(bench.queue, "p");
    await bench.consume(() => {
      throw thrown as Error;
    }, { ...often, maxAttempts: 2 }); // prettier-ignore
    await bench.pass(10_000);
    expect(bench.names).toEqual(["retried", "poisoned"]);
  });

  it.each([["a getter that throws", unreadable], ["a revoked proxy", revocable.proxy], ["undefined", undefined]])("is a payload that cannot be decoded: %s", async (_, thrown) => {
    await enqueue(bench.queue, "p");
    await bench.consume(() => undefined, { ...often, decode: () => { throw thrown as Error; } }); // prettier-ignore
    await bench.pass(10_000);
    expect(bench.names).toEqual(["poisoned"]);
  });
});
