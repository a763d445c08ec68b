import { ClaimInbox } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { compareDrains, concurrency, consume, receiveLoop } from "./queue-drain.js";
import type { Drain } from "./queue-drain.js";

export const queueInbox: Bench = {
  name: "queue-inbox",
  about: "an inbox in claim mode, against as many workers that receive, insert, handle, update and delete message by message",
  async *run(env) {
    const ours = (drain: Drain): Promise<void> => consume(drain, () => undefined, { inbox: new ClaimInbox(drain.table) });
    const baseline = async (drain: Drain): Promise<void> => {
      const work = async (_: unknown, key: string): Promise<void> => {
        await drain.table.createEntity({ partitionKey: "inbox", rowKey: key, state: "claimed" });
        await drain.table.updateEntity({ partitionKey: "inbox", rowKey: key, state: "done" }, "Merge");
      };
      await Promise.all(Array.from({ length: concurrency }, () => receiveLoop(drain, work, 1)));
    };
    yield await compareDrains(env, "queue-inbox", { ours, baseline }, [
      { of: "ratio", atLeast: 2 },
      { of: "requests", atMost: 1.3 },
    ]);
  },
};
