import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";

import { appendExactlyOnce } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { busy, connectionReset, failAfterCommit, type Fault, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

/** What may happen to a request; `slow` lets all others overtake it, `late` has it arrive after it was given up for lost. */
const faults: Readonly<Record<string, Fault>> = {
  pass,
  loseAnswer,
  loseAnswerForGood,
  loseRequest,
  failAfterCommit,
  busy,
  slow: (exchange) => exchange.send(() => new Promise((resolve) => setTimeout(resolve, 7))),
  slower: (exchange) => exchange.send(() => new Promise((resolve) => setTimeout(resolve, 20))),
  slowAndLost: async (exchange) => {
    await exchange.send(() => new Promise((resolve) => setTimeout(resolve, 5))).catch(() => undefined);
    return exchange.send();
  },
  late: async (exchange) => {
    setTimeout(() => {
      try {
        exchange.serve();
      } catch {
        // refused, and nobody is there to hear it
      }
    }, 15);
    await exchange.sendIntoTheVoid();
    throw connectionReset();
  },
};

const scripts = fc.array(fc.constantFrom(...Object.keys(faults)), { maxLength: 60 });
const appenders = fc.array(fc.array(fc.constantFrom("tick", "tick", "tock"), { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 });

interface Outcome {
  readonly appender: number;
  readonly record: string;
  /** Undefined: nobody knows whether it is there. */
  readonly offset: number | undefined;
}

async function play(work: readonly (readonly string[])[], script: readonly string[], uniqueRecords: boolean): Promise<{ text: string; outcomes: Outcome[] }> {
  const service = new FakeService();
  const blob = new FakeAppendBlob(service);
  blob.put("");
  service.next("any", ...script.map((name) => faults[name]!));
  const playing = work.flatMap((records, appender) => {
    // A pipeline of its own is what another process is.
    const client = new FakeAppendBlob(service, { pipeline: {} });
    return records.map(async (letters, index): Promise<Outcome> => {
      const record = uniqueRecords ? `${letters}-${appender}-${index};` : letters;
      const options = { uniqueRecords, timeoutInMs: Number.POSITIVE_INFINITY, maxAttempts: 1_000, maxBatchSizeInBytes: 5, retryDelayInMs: 1 };
      return appendExactlyOnce(client, record, options).then(
        ({ offset }) => ({ appender, record, offset }),
        (error: unknown) => {
          if ((error as Error).name === "CommitUnknownError") return { appender, record, offset: undefined };
          // A look, or a claim, that failed for good: nothing was appended.
          expect((error as Error).name).not.toBe("ConflictError");
          return { appender, record: "", offset: undefined };
        },
      );
    });
  });
  const done = Promise.all(playing);
  await vi.runAllTimersAsync();
  return { text: blob.text, outcomes: await done };
}

describe.each([{ uniqueRecords: false }, { uniqueRecords: true }])("any interleaving of appenders and faults, $uniqueRecords,", ({ uniqueRecords }) => {
  it("leaves each record once, as a whole, where its caller was told, in the order of its appender", async () => {
    await fc.assert(
      fc.asyncProperty(appenders, scripts, async (work, script) => {
        const { text, outcomes } = await play(work, script, uniqueRecords);
        const known = outcomes.filter((outcome) => outcome.offset !== undefined).sort((a, b) => a.offset! - b.offset!);
        let end = 0;
        let gaps = 0;
        for (const { record, offset } of known) {
          expect(offset).toBeGreaterThanOrEqual(end);
          gaps += offset! - end;
          expect(text.slice(offset, offset! + record.length)).toBe(record);
          end = offset! + record.length;
        }
        gaps += text.length - end;
        // What nobody claims is what nobody could know of.
        const unknown = outcomes.filter((outcome) => outcome.offset === undefined).reduce((sum, { record }) => sum + record.length, 0);
        expect(gaps).toBeLessThanOrEqual(unknown);
        for (const appender of work.keys()) {
          const offsets = outcomes.filter((o) => o.appender === appender && o.offset !== undefined).map((o) => o.offset!);
          expect(offsets).toEqual([...offsets].sort((a, b) => a - b));
        }
      }),
      { numRuns: 150 },
    );
  }, 60_000);
});
