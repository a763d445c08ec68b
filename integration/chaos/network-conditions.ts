import { respondWith, delay, dropResponse, hang, dropRequest } from "azure-storage-concurrency/testing";
import type { FaultRule } from "azure-storage-concurrency/testing";

import type { Delivery } from "../support/copying-proxy.js";
import type { Random } from "./random.js";

const kinds = ["calm", "lossy", "busy", "broken lines", "slow", "hanging", "late", "storm"] as const;

/** What the network is like for a while. */
export interface NetworkConditions {
  readonly name: (typeof kinds)[number];
  readonly rules: readonly FaultRule[];
}

export const calm: NetworkConditions = { name: "calm", rules: [] };

/** How a network below the SDK delivers the next write: now and then twice, or seconds after its sender has lost the connection. */
export function deliveryIn(random: Random): Delivery {
  const chance = random.next();
  if (chance < 0.01) return { lateInMs: random.between(500, 9_000) };
  return chance < 0.03 ? "twice" : "once";
}

export function networkConditionsOf(random: Random): NetworkConditions {
  const name = random.pick(kinds);
  const rules: Record<NetworkConditions["name"], FaultRule[]> = {
    calm: [],
    lossy: [dropResponse({ probability: 0.15 })],
    busy: [respondWith(503, { probability: 0.1 }), respondWith(500, { probability: 0.05, at: "response" })],
    "broken lines": [dropRequest({ probability: 0.1 }), dropResponse({ probability: 0.05 })],
    slow: [delay({ minInMs: 20, maxInMs: 400 }, { probability: 0.3 })],
    hanging: [hang({ probability: 0.01 }), hang({ probability: 0.01, at: "response" })],
    // Longer than the tries of a lease, or the callers, wait. What has been given up arrives all the same.
    late: [delay({ minInMs: 2_000, maxInMs: 8_000 }, { probability: 0.01, name: "late request" }), delay({ minInMs: 2_000, maxInMs: 8_000 }, { probability: 0.01, at: "response", name: "late response" })],
    storm: [dropResponse({ probability: 0.1 }), respondWith(503, { probability: 0.1 }), dropRequest({ probability: 0.05 }), hang({ probability: 0.005, at: "response" })],
  };
  return { name, rules: rules[name] };
}
