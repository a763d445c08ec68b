import { respondWith, delay, dropResponse, hang, dropRequest } from "azure-storage-concurrency/testing";
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
    lossy: [dropResponse({ probability: 0.15 })],
    busy: [respondWith(503, { probability: 0.1 }), respondWith(500, { probability: 0.05, at: "response" })],
    "broken lines": [dropRequest({ probability: 0.1 }), dropResponse({ probability: 0.05 })],
    slow: [delay({ minInMs: 20, maxInMs: 400 }, { probability: 0.3 })],
    hanging: [hang({ probability: 0.01 }), hang({ probability: 0.01, at: "response" })],
    storm: [dropResponse({ probability: 0.1 }), respondWith(503, { probability: 0.1 }), dropRequest({ probability: 0.05 }), hang({ probability: 0.005, at: "response" })],
  };
  return { name, rules: rules[name] };
}
