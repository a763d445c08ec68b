import { setImmediate as immediate } from "node:timers/promises";

export { setTimeout as pause } from "node:timers/promises";

/** Resolves after a whole turn of the event loop: whatever timer is due when it is called has run by then. */
export async function nextTurn(): Promise<void> {
  // The first ends the turn that is under way, which may have dealt with its timers already.
  await immediate();
  await immediate();
}
