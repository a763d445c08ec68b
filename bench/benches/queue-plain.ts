import type { Bench } from "../harness.js";
import { compareDrains, consume, receiveLoop } from "./queue-drain.js";
import type { Drain } from "./queue-drain.js";

export const queuePlain: Bench = {
  name: "queue-plain",
  about: "messages without an inbox, against a bare receive(32)/delete loop",
  async *run(env) {
    const ours = (drain: Drain): Promise<void> => consume(drain, () => undefined, {});
    const baseline = (drain: Drain): Promise<void> => receiveLoop(drain, () => Promise.resolve());
    yield await compareDrains(env, "queue-plain", { ours, baseline }, [{ of: "ratio", atLeast: 0.9 }]);
  },
};
