import { afterEach, beforeEach, vi } from "vitest";

import { MemoryInbox } from "../../../src/queue/inbox/memory-inbox.js";
import { inboxContract } from "./contract.js";
import { groupContract } from "./group-contract.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

for (const contract of [inboxContract, groupContract]) {
  contract(
    "a MemoryInbox",
    async () => {
      const inbox = new MemoryInbox();
      return { inbox, other: inbox };
    },
    { pass: (ms) => vi.advanceTimersByTimeAsync(ms) },
  );
}
