import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { ReceivedMessage } from "../../src/queue/received-message.js";
import { WaitingMessages } from "../../src/queue/waiting-messages.js";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const message = (group: string, sequence?: number, givenBack = 0, remainingInMs = 60_000, rest: object = {}): ReceivedMessage<unknown> =>
  ({ group, sequence, givenBack, lease: { remainingInMs }, lifeInMs: 86_400_000, message: { dequeueCount: 1 }, ...rest }) as unknown as ReceivedMessage<unknown>;
const many = (count: number, make: (i: number) => ReceivedMessage<unknown>): ReceivedMessage<unknown>[] => Array.from({ length: count }, (_, i) => make(i));
const sequences = (messages: readonly (ReceivedMessage<unknown> | undefined)[]): unknown[] => messages.map((some) => some?.sequence);
const drained = (waiting: WaitingMessages<unknown>, group: string): unknown[] => sequences(waiting.removeAll(group));

describe("messages that wait for their group", () => {
  it("are admitted in the order of their sequences, and of a sequence the last ones have no room", () => {
    const waiting = new WaitingMessages(250, 60_000, () => undefined);
    const { ready, excess } = waiting.admit(many(80, (i) => message("g", 80 - i)));
    expect(sequences(ready)).toEqual([1]);
    expect(sequences(excess.map((some) => some.message))).toEqual(Array.from({ length: 15 }, (_, i) => i + 66));
    expect(waiting.admit([message("g", 50.5)]).excess.map((some) => some.message.sequence)).toEqual([65]);
    expect(drained(waiting, "g")).toEqual([2, ...Array.from({ length: 62 }, (_, i) => i + 3), 50.5].toSorted((a, b) => a - b));
  });

  it("are limited in total, however many groups there are", () => {
    const waiting = new WaitingMessages(50, 60_000, () => undefined);
    const { ready, excess } = waiting.admit(many(440, (i) => message(`g${i % 220}`)));
    expect([ready.length, waiting.drain().length, excess.length]).toEqual([220, 200, 20]);
    expect(waiting.admit([message("g1")]).excess).toEqual([]);
  });

  describe("with payloads in blobs", () => {
    const stored = (group: string, sequence: number, sizeInBytes: number): ReceivedMessage<unknown> => message(group, sequence, 0, 60_000, { storedPayload: { sizeInBytes } });
    const mib = 1024 * 1024;

    it("are limited by their size, not by their number", () => {
      const waiting = new WaitingMessages(2, 60_000, () => undefined);
      const small = waiting.admit(many(60, (i) => stored("g", i + 1, 100_000)));
      expect(small.excess).toEqual([]);
      const large = waiting.admit([message("h", 1), stored("h", 2, 30 * mib), message("h", 3), message("h", 4)]);
      expect(sequences(large.excess.map((some) => some.message))).toEqual([2]);
      expect(drained(waiting, "h")).toEqual([3, 4]);
    });

    it("may wait however large they are, if they are no more than the handlers", () => {
      const waiting = new WaitingMessages(2, 60_000, () => undefined);
      const { excess } = waiting.admit([message("g", 1), stored("g", 2, 64 * mib), stored("g", 3, 64 * mib), stored("g", 4, 1), stored("g", 5, 1)]);
      expect(sequences(excess.map((some) => some.message))).toEqual([4, 5]);
    });

    it("make room when they wait no longer", () => {
      const waiting = new WaitingMessages(1, 60_000, () => undefined);
      waiting.admit([message("g", 1), stored("g", 2, 33 * mib)]);
      expect(waiting.admit([stored("g", 3, 1)]).excess).toHaveLength(1);
      expect(waiting.takeSuccessor(message("g", 1))?.sequence).toBe(2);
      expect(waiting.admit([stored("g", 3, 1), stored("g", 4, 1)]).excess).toEqual([]);
    });
  });

  it("get the group handed over if they are the next of the sequence, and their message is held", () => {
    const waiting = new WaitingMessages(25, 60_000, () => undefined);
    waiting.admit([message("g", 1), message("g", 3)]);
    expect(waiting.takeSuccessor(message("g", 1))).toBeUndefined();
    waiting.admit([message("g", 2)]);
    expect(waiting.takeSuccessor(message("g", 1))?.sequence).toBe(2);
    waiting.admit([message("h"), message("h", undefined, 0, 0)]);
    expect(waiting.takeSuccessor(message("h"))).toBeUndefined();
  });

  it("come back after those before them, if there is no room: at least a second, at most 30", () => {
    const waiting = new WaitingMessages(250, 60_000, () => undefined);
    const { excess } = waiting.admit(many(1_000, () => message("g")));
    expect(excess.at(0)?.delayInMs).toBe(1_000);
    expect(excess.at(-1)?.delayInMs).toBeGreaterThan(10_000);
    expect(Math.max(...waiting.admit(many(5_000, () => message("g"))).excess.map(({ delayInMs }) => delayInMs))).toBe(30_000);
    vi.advanceTimersByTime(31_000);
    // Those have come back.
    expect(waiting.admit([message("g")]).excess[0]?.delayInMs).toBe(1_000);
    expect(waiting.admit([message("g", undefined, 24)]).excess[0]?.delayInMs).toBe(8_000);
  });

  it("of a sequence come back by their distance from the message that was completed last, however often they were given back", () => {
    const waiting = new WaitingMessages(250, 60_000, () => undefined);
    waiting.admit(many(65, (i) => message("g", 1_001 + i)));
    const delayOf = (sequence: number, givenBack = 0): number | undefined => waiting.admit([message("g", sequence, givenBack)]).excess[0]?.delayInMs;
    // 50 ms for each, as nothing else is known yet, and early.
    expect([delayOf(1_070, 50), delayOf(1_401), delayOf(2_001), delayOf(9_001)]).toEqual([1_000, 5_000, 12_500, 30_000]);
  });

  it("poll for a group of another consumer at first soon, then less often, and soon again after progress", () => {
    const waiting = new WaitingMessages(25, 60_000, () => undefined);
    const first = message("g", 9);
    waiting.admit([first]);
    const polls: (number | undefined)[] = [];
    for (const lastSequence of [4, 4, 4, 4, 5]) {
      polls.push(waiting.park(first, { kind: "gap", lastSequence, retryAfterInMs: 2_000 })?.delayInMs);
      vi.advanceTimersByTime(2_000);
      expect(waiting.next("g")).toBe(first);
    }
    expect(polls).toEqual([50, 200, 400, 600, 50]);
  });

  it("do not wait for a group in which nothing happens", () => {
    const waiting = new WaitingMessages(25, 60_000, () => undefined);
    waiting.admit([message("g", 9)]);
    expect(waiting.park(message("g", 9), { kind: "gap", lastSequence: 4, retryAfterInMs: 60_001 / 8 })).toBeUndefined();
    expect(waiting.park(message("g", 9), { kind: "gap", lastSequence: 4, retryAfterInMs: 60_000 / 8 })).toBeDefined();
  });

  it("do not wait for a group whose order their consumer does not keep", () => {
    const waiting = new WaitingMessages(25, 60_000, () => undefined);
    waiting.admit([message("g")]);
    expect(waiting.park(message("g"), { kind: "gap", lastSequence: 4, retryAfterInMs: 2_000 })).toBeUndefined();
  });

  it("come back later if the message that has the group takes long, in whatever order", () => {
    const waiting = new WaitingMessages(250, 60_000, () => undefined);
    waiting.admit(many(65, (i) => message("g", i + 1)));
    waiting.claimed("g");
    expect(waiting.admit([message("g", 66)]).excess[0]?.delayInMs).toBe(1_000);
    vi.advanceTimersByTime(60_000);
    expect(waiting.admit([message("g", 66)]).excess[0]?.delayInMs).toBe(30_000);
  });

  it("wait no longer shortly before their time to live ends, and leave no timer behind", () => {
    const expired: unknown[] = [];
    const waiting = new WaitingMessages<unknown>(100, 60_000, (some) => expired.push(some.sequence));
    waiting.admit([message("g", 1), message("g", 2, 0, 60_000, { lifeInMs: 5_000 }), message("g", 3, 0, 60_000, { lifeInMs: 30_000 }), message("g", 4)]);
    vi.advanceTimersByTime(2_900);
    expect(expired).toEqual([]);
    vi.advanceTimersByTime(200);
    expect(expired).toEqual([2]);
    expect(drained(waiting, "g")).toEqual([3, 4]);
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(60_000);
    expect(expired).toEqual([2]);
  });

  it("go first if they were delivered before and another consumer has the group: it may have crashed with them", () => {
    const waiting = new WaitingMessages<unknown>(100, 60_000, () => undefined);
    const [first] = waiting.admit([message("g"), message("g"), message("g")]).ready;
    waiting.park(first!, { kind: "busy", retryAfterInMs: 60_000 });
    const again = message("g", undefined, 0, 60_000, { message: { dequeueCount: 2 } });
    waiting.admit([again]);
    expect(waiting.next("g")).toBe(again);
    waiting.drain();
    expect(vi.getTimerCount()).toBe(0);
  });
});
