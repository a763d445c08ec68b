import { ClaimInbox } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { compareDrains, concurrency, consume, receiveLoop } from "./queue-drain.js";
import type { Drain } from "./queue-drain.js";

export const queueInbox: Bench = {
  name: "queue-inbox",
  about: "an inbox in claim mode, against as many workers that receive, insert, handle, update and delete message by message, and against a loop that receives 32 and does so in parallel",
  async *run(env) {
    const ours = (drain: Drain): Promise<void> => consume(drain, () => undefined, { inbox: new ClaimInbox(drain.table) });
    const work = ({ table }: Drain) => async (_: unknown, key: string): Promise<void> => {
      await table.createEntity({ partitionKey: "inbox", rowKey: key, state: "claimed" });
      await table.updateEntity({ partitionKey: "inbox", rowKey: key, state: "done" }, "Merge");
    };
    const baseline = async (drain: Drain): Promise<void> => {
      await Promise.all(Array.from({ length: concurrency }, () => receiveLoop(drain, work(drain), 1)));
    };
    yield await compareDrains(env, "queue-inbox", { ours, baseline }, [
      { of: "ratio", atLeast: 2 },
      { of: "requests", atMost: 1.3 },
    ]);
    // The loop neither renews its messages nor recovers from a lost response.
    const inBatches = (drain: Drain): Promise<void> => receiveLoop(drain, work(drain));
    yield await compareDrains(env, "batches of 32", { ours, baseline: inBatches }, [
      { of: "ratio", atLeast: 1.5 },
      { of: "requests", atMost: 1.3 },
    ]);
  },
};
