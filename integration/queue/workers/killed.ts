import { setTimeout as pause } from "node:timers/promises";

import { runWorker } from "../../support/worker-process.js";
import { perform } from "../killed-steps.js";
import type { KilledConfig } from "../killed-steps.js";

/** Performs one step. The test kills it in the middle. */
runWorker(async (config: KilledConfig) => {
  await perform(config);
  // A response that the kill was to follow may still be on its way.
  await pause(10);
});
