import { CommitInbox, QueueConsumer } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { compareDrains, concurrency, drainWith, receiveLoop } from "./queue-drain.js";
import type { Drain, Payload } from "./queue-drain.js";

export const queueCommit: Bench = {
  name: "queue-commit",
  about: "a CommitInbox, against a transaction of effect and marker on the plain SDK",
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
    const baseline = (drain: Drain): Promise<void> =>
      receiveLoop(drain, ({ order }, key) =>
        drain.table.submitTransaction([
          ["create", { partitionKey: "orders", rowKey: `done-${key}` }],
          ["create", { partitionKey: "orders", rowKey: `effect-${order}` }],
        ]),
      );
    yield await compareDrains(env, "queue-commit", { ours, baseline }, [{ of: "requests", atMost: 2.2 }]);
  },
};
