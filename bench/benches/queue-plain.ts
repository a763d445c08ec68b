import type { Bench } from "../harness.js";
import { compareDrains, consume, receiveLoop } from "./queue-drain.js";
import type { Drain } from "./queue-drain.js";

export const queuePlain: Bench = {
  name: "queue-plain",
  about: "messages without an inbox, against a loop that receives 32, handles them in parallel and deletes them, and against one message at a time",
  async *run(env) {
    const ours = (drain: Drain): Promise<void> => consume(drain, () => undefined, {});
    const baseline = (drain: Drain): Promise<void> => receiveLoop(drain, () => Promise.resolve());
    yield await compareDrains(env, "queue-plain", { ours, baseline }, [{ of: "ratio", atLeast: 1 }]);
    const oneAtATime = (drain: Drain): Promise<void> => receiveLoop(drain, () => Promise.resolve(), 1);
    // Half of the requests, and many at a time: twice is what half of the requests gives where the service is the limit.
    yield await compareDrains(env, "one at a time", { ours, baseline: oneAtATime }, [{ of: "ratio", atLeast: 1.5 }]);
  },
};
