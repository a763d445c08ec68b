import type { Workspace } from "../workspace.js";

/** Microsoft documents that an expired lease may be kept for up to a minute. */
export const expiryPolls = 75;

interface Leased {
  getProperties(): Promise<{ readonly leaseState?: string | undefined }>;
}

/** Waits for the end of the shortest lease, of 15 seconds, on the clock of the service. Costs one request, and extra polls. */
export async function untilExpired(leased: Leased, workspace: Workspace): Promise<void> {
  await workspace.pause(15_500);
  const state = async (): Promise<string | undefined> => (await leased.getProperties()).leaseState;
  await workspace.poll(state, (leaseState) => leaseState === "expired", expiryPolls * 1_000);
}
