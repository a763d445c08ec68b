import { CommitInbox, QueueConsumer } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { compareDrains, concurrency, drainWith, receiveLoop } from "./queue-drain.js";
import type { Drain, Payload } from "./queue-drain.js";

export const queueCommit: Bench = {
  name: "queue-commit",
  about: "a CommitInbox, against a loop that receives 32 and commits effect and marker of each in a transaction, in parallel, and against one message at a time",
  async *run(env) {
    const ours = (drain: Drain): Promise<void> =>
      drainWith(
        drain,
        new QueueConsumer<Payload>(drain.queue, ({ order }, context) => context.commit([["create", { rowKey: `effect-${order}` }]]), {
          concurrency,
          inbox: new CommitInbox(drain.table),
          partitionOf: () => "orders",
        }),
      );
    const work = ({ table }: Drain) => ({ order }: Payload, key: string): Promise<unknown> =>
      table.submitTransaction([
        ["create", { partitionKey: "orders", rowKey: `done-${key}` }],
        ["create", { partitionKey: "orders", rowKey: `effect-${order}` }],
      ]);
    const baseline = (drain: Drain): Promise<void> => receiveLoop(drain, work(drain));
    yield await compareDrains(env, "queue-commit", { ours, baseline }, [{ of: "ratio", atLeast: 1 }, { of: "requests", atMost: 2.2 }]);
    const oneAtATime = (drain: Drain): Promise<void> => receiveLoop(drain, work(drain), 1);
    // Two requests instead of three, and many at a time.
    yield await compareDrains(env, "one at a time", { ours, baseline: oneAtATime }, [{ of: "ratio", atLeast: 1.2 }]);
  },
};
