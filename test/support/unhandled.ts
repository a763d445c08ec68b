import { afterEach, beforeEach, expect } from "vitest";

const realImmediate = setImmediate; // before the clock of a test replaces it

/** Each test of the file fails if a rejection of a promise was not handled: such a rejection ends a process. */
export function expectNoUnhandledRejections(): void {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  beforeEach(() => {
    unhandled.length = 0;
    process.on("unhandledRejection", note);
  });
  afterEach(async () => {
    // They are reported when the microtasks are done.
    await new Promise((resolve) => realImmediate(resolve));
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });
}
