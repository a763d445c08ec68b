import { createError } from "../../src/errors.js";
import { describe, expect, it, vi } from "vitest";
import { resolveWrite, WriteNotSentError } from "../../src/core/resolve-write.js";
import type { Recognition, ResolvableWrite, ResolveLimits } from "../../src/core/resolve-write.js";
import { SchemaError } from "../../src/errors.js";
import { deferred } from "../fakes/deferred.js";
import { after, deaf, deafHang, give, hang, ok, resent, reset, restError, status } from "../lease/fakes/answers.js";
import type { Answer } from "../lease/fakes/answers.js";
import { countedAbort, elapsed, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

const conflict = status(412, "ConditionNotMet");
const notFound = status(404, "BlobNotFound");
const denied = status(403, "AuthorizationFailure");
const busy = status(503, "ServerBusy");
const leased = status(412, "LeaseIdMissing");

/** A write whose responses, and whose stored states, are scripted: what is stored is what it says about the write. */
class ScriptedWrite implements ResolvableWrite<string, Recognition> {
  /** What was done, in order. */
  readonly log: string[] = [];
  /** The responses to the sends; the last one for all that follow. An error is thrown without a send. */
  readonly sends: (Answer | Error)[];
  /** What is found by reading, or the error of the read; the last one for all that follow. */
  readonly finds: (Recognition | Error)[];
  readonly recognise = vi.fn((found: Recognition): Recognition => found);
  invalidateEarlierSends?: (rejection: unknown) => Promise<boolean>;
  onConflict?: (error: unknown) => number;

  constructor(sends: (Answer | Error)[], finds: (Recognition | Error)[] = [new Error("is not to be read")]) {
    this.sends = [...sends];
    this.finds = [...finds];
  }

  send(signal: AbortSignal): Promise<string> {
    this.log.push("send");
    const answer = next(this.sends);
    return answer instanceof Error ? Promise.reject(answer) : give(answer, signal, () => "response");
  }

  async readBack(reason: "conflict" | "lost"): Promise<Recognition> {
    this.log.push(`read back: ${reason}`);
    const found = next(this.finds);
    if (found instanceof Error) throw found;
    return found;
  }
}

function next<E>(script: E[]): E {
  return (script.length > 1 ? script.shift() : script[0])!;
}

const withoutWaits: ResolveLimits = { backoff: () => 0 };

async function resolve(write: ScriptedWrite, limits: ResolveLimits = withoutWaits): Promise<Awaited<ReturnType<typeof resolveWrite<string, Recognition>>>> {
  const outcome = outcomeOf(resolveWrite(write, limits));
  await pass(60_000);
  return outcome.value!;
}

describe("a write that is sent once and", () => {
  it("carried out is committed, without a read", async () => {
    const write = new ScriptedWrite([ok]);
    expect(await resolve(write)).toEqual({ kind: "committed", value: "response" });
    expect(write.log).toEqual(["send"]);
  });

  it("carried out after the SDK sent it again is committed, too", async () => {
    expect(await resolve(new ScriptedWrite([resent(ok)]))).toEqual({ kind: "committed", value: "response" });
  });

  it.each([
    ["denied", denied],
    ["leased by another client", leased],
    ["found invalid", status(400, "InvalidInput")],
  ])("%s is rejected, without a read", async (_, answer) => {
    const write = new ScriptedWrite([answer]);
    write.onConflict = () => 0;
    expect(await resolve(write)).toMatchObject({ kind: "rejected", error: { statusCode: answer.status } });
    expect(write.log).toEqual(["send"]);
  });

  it("found to be misuse before it is sent is rejected", async () => {
    const misuse = new TypeError("not a blob");
    expect(await resolve(new ScriptedWrite([misuse]))).toEqual({ kind: "rejected", error: misuse });
  });

  describe.each([
    ["met a conflict", conflict],
    ["found its target missing", notFound],
  ])("%s", (_, answer) => {
    it("is in conflict without a read, if its caller asks for none", async () => {
      const write = new ScriptedWrite([answer]);
      expect(await resolve(write)).toMatchObject({ kind: "conflict", error: { statusCode: answer.status } });
      expect(write.log).toEqual(["send"]);
    });

    it("is recognised if it is stored: a copy that was made below the SDK was committed", async () => {
      const write = new ScriptedWrite([answer], ["committed"]);
      write.onConflict = () => 0;
      expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
      expect(write.log).toEqual(["send", "read back: conflict"]);
      expect(write.recognise).toHaveBeenCalledExactlyOnceWith("committed", "conflict", expect.objectContaining({ statusCode: answer.status }));
    });

    it.each<Recognition>(["not committed", "unchanged", "unknown"])("is in conflict if what is stored says %s, and returns what was found", async (found) => {
      const write = new ScriptedWrite([answer], [found]);
      write.onConflict = () => 0;
      expect(await resolve(write)).toMatchObject({ kind: "conflict", error: { statusCode: answer.status }, found });
      expect(write.log).toEqual(["send", "read back: conflict"]);
    });
  });

  it("met a conflict waits for the caller's backoff before it reads", async () => {
    const write = new ScriptedWrite([conflict], ["not committed"]);
    write.onConflict = vi.fn(() => 500);
    const outcome = outcomeOf(resolveWrite(write));
    await pass(499);
    expect(write.log).toEqual(["send"]);
    await pass(1);
    expect(outcome.value).toMatchObject({ kind: "conflict", found: "not committed" });
    expect(write.onConflict).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ statusCode: 412 }));
  });

  it("met a conflict is read for again if the read fails transiently, since a copy of it may be stored", async () => {
    const write = new ScriptedWrite([conflict], [restError(busy), restError(reset), "committed"]);
    write.onConflict = () => 0;
    expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
    expect(write.log.slice(1)).toEqual(Array.from({ length: 3 }, () => "read back: conflict"));
  });

  it("met a conflict is in conflict without a state if it cannot be read, or judged: the caller reads again anyway", async () => {
    const unreadable = new ScriptedWrite([conflict], [restError(denied)]);
    unreadable.onConflict = () => 0;
    expect(await resolve(unreadable)).toEqual({ kind: "conflict", error: expect.objectContaining({ statusCode: 412 }) as unknown });
    const unjudged = new ScriptedWrite([conflict], ["committed"]);
    unjudged.onConflict = () => 0;
    unjudged.recognise.mockImplementation(() => {
      throw new Error("cannot tell");
    });
    expect(await resolve(unjudged)).toEqual({ kind: "conflict", error: expect.objectContaining({ statusCode: 412 }) as unknown });
  });
});

describe.each<[string, Answer]>([
  ["got no response", reset],
  ["was answered 503", busy],
  ["was answered 500", status(500, "InternalError")],
  ["was sent again by the SDK and met a conflict", resent(conflict)],
  ["was sent again by the SDK and found its target missing", resent(notFound)],
  ["was sent again by the SDK and denied", resent(denied)],
])("a write that %s", (how, lost) => {
  it("is recognised if it is stored", async () => {
    const write = new ScriptedWrite([lost], ["committed"]);
    write.onConflict = () => 500;
    expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
    expect(write.log).toEqual(["send", "read back: lost"]);
    // The response to a re-send says nothing of the first send.
    const response: unknown = how.startsWith("was sent again") ? undefined : expect.anything();
    expect(write.recognise).toHaveBeenCalledExactlyOnceWith("committed", "lost", response);
  });

  it("is in conflict if what is stored excludes it", async () => {
    const write = new ScriptedWrite([lost], ["not committed"]);
    expect(await resolve(write)).toMatchObject({ kind: "conflict", found: "not committed" });
  });

  it("is unknown if what is stored says nothing", async () => {
    const write = new ScriptedWrite([lost], ["unknown"]);
    expect(await resolve(write)).toMatchObject({ kind: "unknown", found: "unknown" });
    expect(write.log).toEqual(["send", "read back: lost"]);
  });

  it("is sent again while nothing has changed, and committed by that", async () => {
    const write = new ScriptedWrite([lost, lost, ok], ["unchanged"]);
    expect(await resolve(write)).toEqual({ kind: "committed", value: "response" });
    expect(write.log).toEqual(["send", "read back: lost", "send", "read back: lost", "send"]);
  });

  it("is read for at once, without a backoff", async () => {
    const write = new ScriptedWrite([lost], ["committed"]);
    const outcome = outcomeOf(resolveWrite(write));
    await pass(0);
    expect(outcome).toMatchObject({ value: { kind: "recognised" }, at: 0 });
  });
});

describe("after a send of unknown outcome", () => {
  it("a conflict says nothing: an earlier send may be the reason for it", async () => {
    const write = new ScriptedWrite([reset, conflict], ["unchanged", "committed"]);
    write.onConflict = vi.fn(() => 0);
    expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
    expect(write.onConflict).not.toHaveBeenCalled();
    expect(write.log).toEqual(["send", "read back: lost", "send", "read back: lost"]);
  });

  it("a rejection of the next send is not one of the write", async () => {
    const write = new ScriptedWrite([reset, denied], ["unchanged", "committed"]);
    expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
  });

  it("a lease in the way leaves the outcome unknown: the first send may arrive after the release", async () => {
    const write = new ScriptedWrite([reset, leased], ["unchanged"]);
    expect(await resolve(write)).toMatchObject({ kind: "unknown", error: { code: "LeaseIdMissing" } });
    expect(write.log).toHaveLength(4);
  });

  it("a WriteNotSentError says nothing of the earlier send", async () => {
    const write = new ScriptedWrite([reset, new WriteNotSentError(new Error("cause"))], ["unchanged", "committed"]);
    expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
  });
});

describe("a WriteNotSentError", () => {
  const cause = new Error("the staging file could not be written");

  it("is a rejection with its cause, without a read", async () => {
    const write = new ScriptedWrite([new WriteNotSentError(cause)]);
    expect(await resolve(write)).toEqual({ kind: "rejected", error: cause });
    expect(write.log).toEqual(["send"]);
  });

  it("is a conflict if it says so", async () => {
    const write = new ScriptedWrite([new WriteNotSentError(cause, true)]);
    write.onConflict = () => 0;
    expect(await resolve(write)).toEqual({ kind: "conflict", error: cause });
    expect(write.log).toEqual(["send"]);
  });

  it("can be retried as a rejection", async () => {
    const write = new ScriptedWrite([new WriteNotSentError(cause), ok], ["unchanged"]);
    const retryRejected = vi.fn((error: unknown) => error === cause);
    expect(await resolve(write, { ...withoutWaits, retryRejected })).toEqual({ kind: "committed", value: "response" });
  });
});

describe("reading back", () => {
  it("is tried three times if it fails transiently, without another send in between", async () => {
    const write = new ScriptedWrite([reset], [restError(busy), restError(reset), "committed"]);
    expect(await resolve(write)).toEqual({ kind: "recognised", found: "committed" });
    expect(write.log).toEqual(["send", "read back: lost", "read back: lost", "read back: lost"]);
  });

  it.each([
    [undefined, 3],
    [1, 1],
  ])("that keeps failing makes the outcome unknown, with both errors (maxReadBacks %s): nothing is sent again", async (maxReadBacks, reads) => {
    // Where reading back also keeps earlier sends from taking effect, that has failed: another send could be overtaken by the first.
    const write = new ScriptedWrite([reset, ok], [restError(busy)]);
    const outcome = await resolve(write, { ...withoutWaits, maxReadBacks });
    expect(outcome).toMatchObject({ kind: "unknown", error: { errors: [{ code: "ECONNRESET" }, { statusCode: 503 }] }, readError: { statusCode: 503 } });
    expect(write.log).toEqual(["send", ...Array<string>(reads).fill("read back: lost")]);
  });

  it.each([
    ["is denied", restError(denied)],
    ["is misuse", new TypeError("not an append blob")],
    ["does not fit the schema", createError(SchemaError, "no", { issues: [], url: "u" } as never)],
  ])("that %s is not repeated, and the outcome is unknown", async (_, error) => {
    const write = new ScriptedWrite([reset], [error]);
    expect(await resolve(write)).toMatchObject({ kind: "unknown", error: { errors: [{ code: "ECONNRESET" }, error] } });
    expect(write.log).toEqual(["send", "read back: lost"]);
  });

  it("whose result cannot be judged makes the outcome unknown", async () => {
    const write = new ScriptedWrite([reset, ok], ["unknown"]);
    write.recognise.mockRejectedValue(restError(busy));
    expect(await resolve(write)).toMatchObject({ kind: "unknown", readError: { statusCode: 503 } });
    expect(write.log).toEqual(["send", "read back: lost", "read back: lost", "read back: lost"]);
  });

  it("whose result cannot be judged at first is repeated", async () => {
    const write = new ScriptedWrite([reset, ok], ["committed"]);
    write.recognise.mockRejectedValueOnce(restError(busy));
    expect(await resolve(write)).toMatchObject({ kind: "recognised" });
    expect(write.log).toEqual(["send", "read back: lost", "read back: lost"]);
  });
});

describe("re-sends", () => {
  it.each([
    [undefined, 11],
    [3, 4],
    [0, 1],
  ])("are limited to maxResends (%s): %i sends, then the outcome is unknown", async (maxResends, sends) => {
    const write = new ScriptedWrite([reset], ["unchanged"]);
    const outcome = await resolve(write, { ...withoutWaits, maxResends });
    expect(outcome).toMatchObject({ kind: "unknown", error: { code: "ECONNRESET" } });
    expect(write.log.filter((entry) => entry === "send")).toHaveLength(sends);
  });

  it("wait for the backoff, by default with full jitter up to a second", async () => {
    vi.mocked(Math.random).mockReturnValue(0.999_999);
    const write = new ScriptedWrite([reset], ["unchanged"]);
    const outcome = outcomeOf(resolveWrite(write));
    await pass(60_000);
    // 10 + 20 + ... + 640 + 3 * 1000, less the fractions that timers do not count
    expect(outcome.at).toBeGreaterThanOrEqual(4_270 - 10);
    expect(outcome.at).toBeLessThanOrEqual(4_270);
    const numbers: number[] = [];
    const own = new ScriptedWrite([reset, reset, ok], ["unchanged"]);
    const started = elapsed();
    const timed = outcomeOf(resolveWrite(own, { backoff: (resend) => (numbers.push(resend), 100) }));
    await pass(200);
    expect(timed.at! - started).toBe(200);
    expect(numbers).toEqual([0, 1]);
  });
});

describe("a write that the service rejects for now", () => {
  const copying = status(409, "PendingCopyOperation");

  it("is sent again until it is carried out, without a read", async () => {
    const write = new ScriptedWrite([copying, copying, ok]);
    expect(await resolve(write)).toEqual({ kind: "committed", value: "response" });
    expect(write.log).toEqual(["send", "send", "send"]);
  });

  it("is sent again if one of its requests is rejected before the deciding one", async () => {
    const write = new ScriptedWrite([new WriteNotSentError(restError(status(409, "ContainerBeingDeleted"))), ok]);
    expect(await resolve(write)).toEqual({ kind: "committed", value: "response" });
  });

  it("is rejected, not unknown, if that does not end", async () => {
    const write = new ScriptedWrite([copying]);
    const outcome = outcomeOf(resolveWrite(write));
    await pass(120_000);
    expect(outcome.value).toMatchObject({ kind: "rejected", error: { statusCode: 409 } });
    expect(write.log).toEqual(Array.from({ length: 17 }, () => "send"));
  });

  it("is rejected at once if the caller leaves", async () => {
    const caller = countedAbort();
    const outcome = outcomeOf(resolveWrite(new ScriptedWrite([copying]), { abortSignal: caller.signal }));
    await pass(1);
    caller.abort();
    await pass(1);
    expect(outcome.value).toMatchObject({ kind: "rejected", error: { statusCode: 409 } });
  });

  it("is in conflict if another client was first meanwhile", async () => {
    expect(await resolve(new ScriptedWrite([copying, conflict]))).toMatchObject({ kind: "conflict" });
  });
});

describe("a rejection with an unknown code", () => {
  it.each([
    [412, "CodeOfTheFuture"],
    [409, "CodeOfTheFuture"],
    [409, undefined],
  ])("%i %s is a conflict to look at: the write may be stored", async (code, name) => {
    const write = new ScriptedWrite([status(code, name)], ["committed"]);
    write.onConflict = () => 0;
    expect(await resolve(write)).toMatchObject({ kind: "recognised" });
    expect(write.log).toEqual(["send", "read back: conflict"]);
  });
});

describe("retryRejected", () => {
  const retryRejected = (error: unknown): boolean => (error as { statusCode?: number }).statusCode === 403;

  it("sends a write again that the service rejected", async () => {
    const write = new ScriptedWrite([denied, denied, ok], ["unchanged"]);
    expect(await resolve(write, { ...withoutWaits, retryRejected })).toEqual({ kind: "committed", value: "response" });
  });

  it("leaves other rejections as they are, and sends a write again that a gateway rejected like a conflict", async () => {
    expect(await resolve(new ScriptedWrite([status(400, "InvalidInput")]), { ...withoutWaits, retryRejected })).toMatchObject({ kind: "rejected" });
    expect(await resolve(new ScriptedWrite([conflict]), { ...withoutWaits, retryRejected })).toMatchObject({ kind: "conflict" });
    const write = new ScriptedWrite([conflict, ok], ["unchanged"]);
    expect(await resolve(write, { ...withoutWaits, retryRejected: () => true })).toEqual({ kind: "committed", value: "response" });
  });

  it("trusts a conflict after rejections alone, as no send can have been carried out", async () => {
    const write = new ScriptedWrite([denied, conflict], ["unchanged"]);
    expect(await resolve(write, { ...withoutWaits, retryRejected })).toMatchObject({ kind: "conflict", error: { statusCode: 412 } });
    expect(write.log).toEqual(["send", "read back: lost", "send"]);
  });

  it("trusts no response any more after a send of unknown outcome", async () => {
    const write = new ScriptedWrite([denied, reset, denied, conflict], ["unchanged", "unchanged", "unchanged", "committed"]);
    expect(await resolve(write, { ...withoutWaits, retryRejected })).toEqual({ kind: "recognised", found: "committed" });
    expect(write.log.filter((entry) => entry === "send")).toHaveLength(4);
  });
});

describe("invalidateEarlierSends", () => {
  const setUp = (invalidate: () => Promise<boolean>, sends: Answer[] = [reset, conflict, ok]): ScriptedWrite => {
    const write = new ScriptedWrite(sends, ["unchanged"]);
    write.invalidateEarlierSends = vi.fn(invalidate);
    return write;
  };

  it("makes a conflict certain although an earlier send may be in flight", async () => {
    const write = setUp(() => Promise.resolve(true));
    expect(await resolve(write)).toMatchObject({ kind: "conflict", error: { statusCode: 412 } });
    expect(write.invalidateEarlierSends).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ statusCode: 412 }));
    expect(write.log).toEqual(["send", "read back: lost", "send", "read back: lost"]);
  });

  it.each([
    ["returns false", () => Promise.resolve(false)],
    ["fails", () => Promise.reject(new Error("no response"))],
  ])("lets the write be sent again if it %s", async (_, invalidate) => {
    const write = setUp(invalidate);
    expect(await resolve(write)).toEqual({ kind: "committed", value: "response" });
    expect(write.invalidateEarlierSends).toHaveBeenCalledTimes(1);
  });

  it.each<[string, Answer]>([
    ["the write got no response", reset],
    ["the response may be that to a re-send by the SDK", resent(conflict)],
    ["the service was busy", busy],
  ])("is not asked for while %s", async (_, answer) => {
    const write = setUp(() => Promise.resolve(true), [answer, ok]);
    expect(await resolve(write)).toEqual({ kind: "committed", value: "response" });
    expect(write.invalidateEarlierSends).not.toHaveBeenCalled();
  });

  it("is not asked for if the state has changed", async () => {
    const write = setUp(() => Promise.resolve(true));
    write.finds.splice(0, 1, "unchanged", "not committed");
    expect(await resolve(write)).toMatchObject({ kind: "conflict", found: "not committed" });
    expect(write.invalidateEarlierSends).not.toHaveBeenCalled();
  });
});

describe("a time limit", () => {
  it("ends each send by itself, and the limit is asked for anew", async () => {
    const limits = [100, 200];
    const write = new ScriptedWrite([deafHang, deafHang, ok], ["unchanged"]);
    const outcome = outcomeOf(resolveWrite(write, { backoff: () => 10, tryLimit: { timeoutInMs: () => limits.shift() ?? 1_000 } }));
    await pass(319);
    expect(write.log.filter((entry) => entry === "send")).toHaveLength(2);
    await pass(1);
    expect(outcome).toMatchObject({ value: { kind: "committed" }, at: 320 });
  });
});

describe("an abort of the signal", () => {
  it("before the first send rejects the write, which certainly had no effect", async () => {
    const write = new ScriptedWrite([ok]);
    const outcome = await resolve(write, { abortSignal: AbortSignal.abort(new Error("enough")) });
    expect(outcome).toMatchObject({ kind: "rejected", error: { message: "enough" } });
    expect(write.log).toEqual([]);
  });

  it.each([
    ["that hangs", hang],
    ["whose client ignores it", deafHang],
  ])("during a send %s makes the outcome unknown at once, without a read", async (_, answer) => {
    const caller = countedAbort();
    const write = new ScriptedWrite([answer], ["committed"]);
    const outcome = outcomeOf(resolveWrite(write, { ...withoutWaits, abortSignal: caller.signal }));
    await pass(500);
    caller.abort(new Error("enough"));
    await pass(0);
    expect(outcome).toMatchObject({ at: 500, value: { kind: "unknown", error: { message: "enough" } } });
    expect(write.log).toEqual(["send"]);
  });

  it("while a response arrives does not take back a success", async () => {
    const caller = countedAbort();
    const write = new ScriptedWrite([ok]);
    const response = deferred<string>();
    vi.spyOn(write, "send").mockReturnValue(response.promise);
    const outcome = resolveWrite(write, { abortSignal: caller.signal });
    response.resolve("response");
    void response.promise.then(() => caller.abort());
    expect(await outcome).toEqual({ kind: "committed", value: "response" });
  });

  it("during the wait before a re-send makes the outcome unknown, with the error of the send", async () => {
    const caller = countedAbort();
    const write = new ScriptedWrite([reset], ["unchanged"]);
    const outcome = outcomeOf(resolveWrite(write, { backoff: () => 1_000, abortSignal: caller.signal }));
    await pass(500);
    caller.abort();
    await pass(0);
    expect(outcome).toMatchObject({ at: 500, value: { kind: "unknown", error: { code: "ECONNRESET" } } });
    expect(write.log).toEqual(["send", "read back: lost"]);
  });

  it("during the backoff after a conflict leaves the conflict, without a read", async () => {
    const caller = countedAbort();
    const write = new ScriptedWrite([conflict], ["committed"]);
    write.onConflict = () => 1_000;
    const outcome = outcomeOf(resolveWrite(write, { abortSignal: caller.signal }));
    await pass(500);
    caller.abort();
    await pass(0);
    expect(outcome).toMatchObject({ at: 500, value: { kind: "conflict" } });
    expect(write.log).toEqual(["send"]);
  });

  it("while reading back starts no further read and no further send", async () => {
    const caller = countedAbort();
    const write = new ScriptedWrite([reset], ["unchanged"]);
    const read = vi.spyOn(write, "readBack").mockImplementation(async () => {
      caller.abort();
      throw restError(busy);
    });
    expect(await resolve(write, { ...withoutWaits, abortSignal: caller.signal })).toMatchObject({ kind: "unknown" });
    expect(read).toHaveBeenCalledTimes(1);
    expect(write.log).toEqual(["send"]);
  });

  it("after an outcome was read does not take it back", async () => {
    const caller = countedAbort();
    const write = new ScriptedWrite([reset], ["committed"]);
    write.recognise.mockImplementation((found) => {
      caller.abort();
      return found;
    });
    expect(await resolve(write, { abortSignal: caller.signal })).toEqual({ kind: "recognised", found: "committed" });
  });

  it("leaves no listener", async () => {
    const caller = countedAbort();
    await resolve(new ScriptedWrite([reset, resent(conflict), ok], ["unchanged"]), { backoff: () => 10, abortSignal: caller.signal });
    expect(caller.listeners()).toBe(0);
  });
});

describe("with resolveAfterAbort, an abort", () => {
  const aborted = async (found: Recognition, answer: Answer = hang): Promise<{ write: ScriptedWrite; value: unknown; at: number | undefined }> => {
    const caller = countedAbort();
    const write = new ScriptedWrite([answer], [found]);
    const outcome = outcomeOf(resolveWrite(write, { resolveAfterAbort: true, abortSignal: caller.signal }));
    await pass(500);
    caller.abort();
    await pass(0);
    return { write, value: outcome.value, at: outcome.at };
  };

  it("during a send ends the send, and its outcome is found out all the same", async () => {
    const { write, value, at } = await aborted("committed");
    expect({ value, at }).toEqual({ value: { kind: "recognised", found: "committed" }, at: 500 });
    expect(write.log).toEqual(["send", "read back: lost"]);
    expect((await aborted("not committed")).value).toMatchObject({ kind: "conflict" });
    expect((await aborted("unknown")).value).toMatchObject({ kind: "unknown" });
  });

  it("sends nothing again: while nothing has changed, the outcome is unknown", async () => {
    const { write, value, at } = await aborted("unchanged");
    expect(value).toMatchObject({ kind: "unknown" });
    expect(at).toBe(500);
    expect(write.log).toEqual(["send", "read back: lost"]);
  });

  it("before the first send still rejects the write", async () => {
    const write = new ScriptedWrite([ok]);
    const limits = { resolveAfterAbort: true, abortSignal: AbortSignal.abort(new Error("enough")) };
    expect(await resolve(write, limits)).toMatchObject({ kind: "rejected", error: { message: "enough" } });
    expect(write.log).toEqual([]);
  });
});

it("sends the write once at a time: a slow send is waited for", async () => {
  const write = new ScriptedWrite([after(5_000, reset), ok], ["unchanged"]);
  const outcome = outcomeOf(resolveWrite(write, { backoff: () => 1 }));
  await pass(4_999);
  expect(write.log).toEqual(["send"]);
  await pass(2);
  expect(outcome.value).toMatchObject({ kind: "committed" });
});

it("waits with awaitSend for the end of a send that was aborted, and takes its response", async () => {
  const caller = countedAbort();
  const write = new ScriptedWrite([deaf(after(5_000, ok))]);
  const outcome = outcomeOf(resolveWrite(write, { awaitSend: true, abortSignal: caller.signal }));
  await pass(1_000);
  caller.abort();
  await pass(3_999);
  expect(outcome).toEqual({});
  await pass(1);
  expect(outcome.value).toEqual({ kind: "committed", value: "response" });
});

describe("the time of a send", () => {
  it("is asked for with the number of sends before it that took too long, and no others", async () => {
    const timeoutInMs = vi.fn(() => 1_000);
    const write = new ScriptedWrite([reset, hang, hang, ok], ["unchanged"]);
    expect(await resolve(write, { ...withoutWaits, tryLimit: { timeoutInMs } })).toEqual({ kind: "committed", value: "response" });
    expect(timeoutInMs.mock.calls).toEqual([[0], [0], [1], [2]]);
  });

  it("does not include the wait for a service that rejects the write for now, of which others are told", async () => {
    const onWait = vi.fn();
    const write = new ScriptedWrite([status(409, "PendingCopyOperation"), ok]);
    expect(await resolve(write, { ...withoutWaits, tryLimit: { timeoutInMs: () => 60_000, onWait } })).toEqual({ kind: "committed", value: "response" });
    expect(onWait.mock.calls).toEqual([[true], [false]]);
    const untold = new ScriptedWrite([status(409, "PendingCopyOperation"), ok]);
    expect(await resolve(untold, { ...withoutWaits, tryLimit: { timeoutInMs: () => 60_000 } })).toEqual({ kind: "committed", value: "response" });
  });
});

it("a write that was not sent because another client was first is not waited for", async () => {
  const cause = restError(status(409, "PendingCopyOperation"));
  const write = new ScriptedWrite([new WriteNotSentError(cause, true), ok]);
  expect(await resolve(write)).toEqual({ kind: "conflict", error: cause });
  expect(write.log).toEqual(["send"]);
});

it("the read after a conflict is not repeated if what it found cannot be read", async () => {
  const write = new ScriptedWrite([conflict], [new TypeError("not JSON"), "committed"]);
  write.onConflict = () => 0;
  expect(await resolve(write)).toMatchObject({ kind: "conflict" });
  expect(write.log).toEqual(["send", "read back: conflict"]);
});

it("what is thrown within the library has names that logs show", () => {
  expect(new WriteNotSentError(undefined).name).toBe("WriteNotSentError");
});
