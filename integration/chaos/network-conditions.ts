import { answerWith, delay, dropAnswer, hang, refuse } from "azure-storage-concurrency/testing";
import type { FaultRule } from "azure-storage-concurrency/testing";

import type { Random } from "./random.js";

const kinds = ["calm", "lossy", "busy", "broken lines", "slow", "hanging", "storm"] as const;

/** What the network is like for a while. */
export interface NetworkConditions {
  readonly name: (typeof kinds)[number];
  readonly rules: readonly FaultRule[];
}

export const calm: NetworkConditions = { name: "calm", rules: [] };

export function networkConditionsOf(random: Random): NetworkConditions {
  const name = random.pick(kinds);
  const rules: Record<NetworkConditions["name"], FaultRule[]> = {
    calm: [],
    lossy: [dropAnswer({ probability: 0.15 })],
    busy: [answerWith(503, { probability: 0.1 }), answerWith(500, { probability: 0.05, at: "answer" })],
    "broken lines": [refuse({ probability: 0.1 }), dropAnswer({ probability: 0.05 })],
    slow: [delay({ minInMs: 20, maxInMs: 400 }, { probability: 0.3 })],
    hanging: [hang({ probability: 0.01 }), hang({ probability: 0.01, at: "answer" })],
    storm: [dropAnswer({ probability: 0.1 }), answerWith(503, { probability: 0.1 }), refuse({ probability: 0.05 }), hang({ probability: 0.005, at: "answer" })],
  };
  return { name, rules: rules[name] };
}
