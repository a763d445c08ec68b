import { networkConditionsOf } from "./network-conditions.js";
import type { NetworkConditions } from "./network-conditions.js";
import type { Random } from "./random.js";

/** Something that happens to the run, at a time in milliseconds after its beginning. */
export type Disturbance =
  | { readonly at: number; readonly kind: "kill"; readonly place: number }
  | { readonly at: number; readonly kind: "stop"; readonly place: number; readonly forInMs: number }
  /** The wall clock of a process is set. */
  | { readonly at: number; readonly kind: "clock"; readonly place: number; readonly byInMs: number }
  | { readonly at: number; readonly kind: "network"; readonly service: number; readonly conditions: NetworkConditions };

/** The whole plan of a run, drawn from its seed before it begins. */
export function planOf(random: Random, durationInMs: number, workers: number, services: number): Disturbance[] {
  const plan: Disturbance[] = [];
  const violence = random.fork("violence");
  for (let at = 3_000; at < durationInMs; at += violence.between(1_500, 4_500)) {
    const place = violence.between(0, workers - 1);
    const chance = violence.next();
    if (chance < 0.4) plan.push({ at, kind: "kill", place });
    // Some longer than a lease of 15 s, so that others take over while it sleeps; the others at any moment, for any time.
    else plan.push({ at, kind: "stop", place, forInMs: chance < 0.5 ? violence.between(16_000, 20_000) : violence.between(50, 6_000) });
  }
  const clock = random.fork("clock");
  for (let at = 5_000; at < durationInMs; at += clock.between(8_000, 15_000)) plan.push({ at, kind: "clock", place: clock.between(0, workers - 1), byInMs: clock.between(-40_000, 40_000) });
  for (let service = 0; service < services; service++) {
    const network = random.fork(`network conditions ${service}`);
    for (let at = 0; at < durationInMs; at += network.between(1_000, 4_000)) plan.push({ at, kind: "network", service, conditions: networkConditionsOf(network) });
  }
  return plan.sort((a, b) => a.at - b.at);
}
