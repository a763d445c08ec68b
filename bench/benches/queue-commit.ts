import { TableInbox } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { compareDrains, consume, receiveLoop } from "./queue-drain.js";
import type { Drain } from "./queue-drain.js";

export const queueCommit: Bench = {
  name: "queue-commit",
  about: "an inbox in commit mode, against a transaction of effect and marker written by hand",
  async *run(env) {
    const ours = (drain: Drain): Promise<void> =>
      consume(
        drain,
        ({ order }, context) => context.commit("orders", [["create", { partitionKey: "orders", rowKey: `effect-${order}` }]]),
        { inbox: new TableInbox(drain.table, { mode: "commit" }) },
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
