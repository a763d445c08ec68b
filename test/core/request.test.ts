import { describe, expect, it, vi } from "vitest";
import { check, countSends, read, request } from "../../src/core/request.js";
import { deferred } from "../fakes/deferred.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { loseAnswer } from "../fakes/faults.js";
import { after, deaf, deafHang, give, ok, resent, status } from "../lease/fakes/answers.js";
import type { Answer } from "../lease/fakes/answers.js";
import { countedAbort, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

const sending = (answer: Answer) => (signal: AbortSignal) => give(answer, signal, () => "response");

describe("request", () => {
  it("returns the response and how often the SDK sent it", async () => {
    expect(await request(sending(ok))).toEqual({ kind: "ok", value: "response", sends: 1 });
    expect(await request(sending(resent(ok)))).toEqual({ kind: "ok", value: "response", sends: 2 });
  });

  it("is rejected if it was sent once and refused, and unknown if the refusal may be that of a re-send", async () => {
    expect(await request(sending(status(409)))).toMatchObject({ kind: "rejected", error: { statusCode: 409 }, sends: 1 });
    expect(await request(sending(resent(status(409))))).toMatchObject({ kind: "unknown", error: { statusCode: 409 }, sends: 2 });
  });

  it("is unknown after a status that the service also sends for requests that it commits", async () => {
    for (const code of [408, 500, 503]) expect(await request(sending(status(code)))).toMatchObject({ kind: "unknown", sends: 1 });
  });

  it("is rejected if the client refuses its arguments without sending anything", async () => {
    const misuse = new TypeError("not a blob");
    expect(await request(() => Promise.reject(misuse))).toEqual({ kind: "rejected", error: misuse, sends: 0 });
  });

  it("is unknown when its time is over, even if the client ignores its signal", async () => {
    const outcome = outcomeOf(request(sending(deafHang), { timeoutInMs: 100 }));
    await pass(1_000);
    expect(outcome).toMatchObject({ at: 100, value: { kind: "unknown", error: { name: "RequestTimeoutError" } } });
  });

  it("aborts the call when its time is over", async () => {
    let signal: AbortSignal | undefined;
    const outcome = outcomeOf(
      request(
        (given) => {
          signal = given;
          return give(after(500, ok), given, () => "response");
        },
        { timeoutInMs: 100 },
      ),
    );
    await pass(100);
    expect(signal!.aborted).toBe(true);
    expect(outcome.at).toBe(100);
  });

  it("is reported with awaitSend only when the call has settled, as its clean-up must not overlap with what the caller does next", async () => {
    const caller = countedAbort();
    const cleanedUp = deferred();
    const send = async (signal: AbortSignal): Promise<string> => {
      try {
        return await give(deaf(after(500, ok)), signal, () => "response");
      } finally {
        await cleanedUp.promise;
      }
    };
    const outcome = outcomeOf(request(send, { awaitSend: true, abortSignal: caller.signal }));
    await pass(100);
    caller.abort(new Error("enough"));
    await pass(1_000);
    expect(outcome).toEqual({});
    cleanedUp.resolve();
    await pass(0);
    expect(outcome.value).toEqual({ kind: "ok", value: "response", sends: 1 });
  });

  it("ends with the caller's reason, and removes its listener", async () => {
    const caller = countedAbort();
    const outcome = outcomeOf(request(sending(deafHang), { abortSignal: caller.signal }));
    expect(caller.listeners()).toBe(1);
    caller.abort(new Error("enough"));
    await pass(0);
    expect(outcome.value).toMatchObject({ kind: "unknown", error: { message: "enough" } });
    expect(caller.listeners()).toBe(0);
  });

  it("is not sent for a caller that has aborted before, and so certainly had no effect", async () => {
    const send = vi.fn(() => Promise.resolve(1));
    const outcome = await request(send, { abortSignal: AbortSignal.abort(new Error("gone")) });
    expect(outcome).toMatchObject({ kind: "rejected", error: { message: "gone" }, sends: 0 });
    expect(send).not.toHaveBeenCalled();
  });

  it("treats a call that throws synchronously as one that rejects, and leaves nothing behind", async () => {
    const caller = countedAbort();
    const thrown = new Error("thrown");
    const send = (): never => {
      throw thrown;
    };
    expect(await request(send, { timeoutInMs: 1_000, abortSignal: caller.signal })).toMatchObject({ kind: "unknown", error: thrown });
    expect(caller.listeners()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});

it("read returns the response, or rejects with the error", async () => {
  expect(await read(() => Promise.resolve(7))).toBe(7);
  await expect(read(sending(status(404)))).rejects.toMatchObject({ statusCode: 404 });
});

describe("check", () => {
  const url = "https://account.test/table";
  const checking = (answers: Answer[]): { outcome: ReturnType<typeof outcomeOf>; left: Answer[] } => {
    const left = [...answers];
    const abortSignal = new AbortController().signal;
    return { outcome: outcomeOf(check(url, ({ abortSignal: signal }) => give(left.shift()!, signal, () => "response"), { abortSignal, tracingOptions: {} })), left };
  };

  it("waits while the table that it creates is being deleted", async () => {
    const { outcome } = checking([status(409, "TableBeingDeleted"), status(409, "TableBeingDeleted"), ok]);
    await pass(60_000);
    expect(outcome.value).toBe("response");
  });

  it("says so if that does not end", async () => {
    const { outcome, left } = checking(Array<Answer>(20).fill(status(409, "QueueBeingDeleted")));
    await pass(120_000);
    expect(outcome.error).toMatchObject({ code: "TARGET_STATE", reason: "beingDeleted", url });
    expect(left).toHaveLength(3);
  });

  it("passes any other rejection on at once", async () => {
    const { outcome } = checking([status(409, "TableAlreadyExists")]);
    await pass(0);
    expect(outcome.error).toMatchObject({ statusCode: 409, code: "TableAlreadyExists" });
  });
});

describe("countSends", () => {
  it("counts abort listeners, and no others", () => {
    const { signal } = new AbortController();
    const { sends, stop } = countSends(signal);
    expect(sends()).toBe(0);
    const listener = vi.fn();
    signal.addEventListener("abort", listener);
    signal.addEventListener("other", listener);
    expect(sends()).toBe(1);
    signal.removeEventListener("abort", listener);
    expect(sends()).toBe(1);
    stop();
    signal.addEventListener("abort", listener);
    expect(sends()).toBe(1);
  });

  it("leaves the signal working", () => {
    const controller = new AbortController();
    countSends(controller.signal);
    const listener = vi.fn();
    controller.signal.addEventListener("abort", listener);
    controller.abort("reason");
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it("tells one send from two", async () => {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service);
    const once = await request((abortSignal) => blob.upload(new Uint8Array(), 0, { abortSignal, tracingOptions: {} }));
    service.next("upload", loseAnswer);
    const twice = await request((abortSignal) => blob.upload(new Uint8Array(), 0, { abortSignal, tracingOptions: {} }));
    expect([once.sends, twice.sends]).toEqual([1, 2]);
  });
});

describe("a request to a busy service", () => {
  /** As the SDK sends it: twice at once, then after 4 seconds. It adds a listener for each send, and for each wait. */
  const busySdk = (last: Answer) => async (signal: AbortSignal) => {
    for (const waitInMs of [0, 4_000]) {
      signal.addEventListener("abort", () => undefined);
      await Promise.resolve();
      await give(after(waitInMs, ok), signal, () => undefined);
    }
    return give(last, signal, () => "response");
  };

  it("is not given up while the SDK waits before it sends again", async () => {
    const [spared, limited] = [{ sparesWaits: true }, {}].map((limits) => outcomeOf(request(busySdk(ok), { timeoutInMs: 1_000, ...limits })));
    await pass(1_000);
    expect([spared, limited]).toMatchObject([{}, { value: { kind: "unknown" }, at: 1_000 }]);
    await pass(3_000);
    expect(spared).toMatchObject({ value: { kind: "ok" }, at: 4_000 });
  });

  it("has the whole time for each later send, and not more", async () => {
    const outcome = outcomeOf(request(busySdk(deafHang), { timeoutInMs: 1_000, sparesWaits: true }));
    await pass(4_900);
    expect(outcome).toEqual({});
    await pass(400);
    expect(outcome).toMatchObject({ value: { kind: "unknown", error: { name: "RequestTimeoutError" } } });
  });

  it("is given up in time if the first send gets no response", async () => {
    const outcome = outcomeOf(request(sending(deafHang), { timeoutInMs: 1_000, sparesWaits: true }));
    await pass(1_000);
    expect(outcome.at).toBe(1_000);
  });
});
