import { machineTime, overlapsOf } from "../claims.js";
import type { Claim } from "../claims.js";
import { lockFailures, networkFailures, outOfTime } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";
import { lockOptions, tryToHold } from "./locks.js";

/** Leases of the SDK's own resources: of a container, of blobs, and of a share. They have no epochs: each holder gets the time of its beginning. */
export const leases: Scenario = {
  name: "leases",
  invariant: "never two holders at once, a loss is known before the next one begins (withLease on a container, blobs, a share)",
  tasks: 3,
  expects: [...lockFailures, ...networkFailures, ...outOfTime],
  lanes: ["container", "blobs", "share"],
  takesOver: true,
  prepare: async ({ container }) => {
    for (const number of [1, 2, 3, 4]) await container.getBlockBlobClient(`leased-${number}`).upload("", 0);
  },
  work: async (task) => {
    const { withLease } = task.library;
    while (!task.finish.aborted) {
      const lane = (["container", "blobs", "share"] as const)[Number(task.id.at(-1))] ?? "blobs";
      const number = task.random.between(1, 4);
      const target = { container: task.storage.leased, blobs: task.storage.container.getBlockBlobClient(`leased-${number}`), share: task.storage.share }[lane];
      const name = lane === "blobs" ? `blob-${number}` : lane;
      await tryToHold(task, name, (claim) => withLease(target, async (lease) => {
        await claim(machineTime(), () => lease.assertHeld());
        // Each leaves the lease with this holder, or tells that it is lost.
        if (task.random.between(1, 4) === 1) await lease.renew();
        if (task.random.between(1, 4) === 1) await lease.change();
        await claim(machineTime(), () => lease.assertHeld());
      }, lockOptions), lane);
    }
  },
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("leases"), 1)),
};
