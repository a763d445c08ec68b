import { startStopwatch } from "../core/deadline.js";
import { fullJitter, retry } from "../core/retry.js";
import { isCount } from "./envelope.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { Inbox, InboxClaim, InboxClaimResult } from "./inbox/inbox.js";
import type { ReceivedMessage } from "./received-message.js";

const claimKinds: readonly string[] = ["claimed", "completed", "busy", "superseded", "payloadMismatch", "gap", "sequenceUsed"] satisfies readonly InboxClaimResult["kind"][];

/** Limits of {@link claimBatch}. */
export interface ClaimBatchOptions {
  readonly timeoutInMs: number;
  readonly abortSignal: AbortSignal;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Claims messages in the inbox, and retries while it cannot be reached: no message is processed without it. The messages are renewed
 * meanwhile. When the time is over they are given back, as another consumer may be able to reach the inbox: the result is empty.
 */
export async function claimBatch<T>(inbox: Inbox, batch: readonly ReceivedMessage<T>[], options: ClaimBatchOptions): Promise<readonly InboxClaimResult[]> {
  const { timeoutInMs, abortSignal, onFailure } = options;
  const elapsedInMs = startStopwatch();
  try {
    return await retry(() => claimOnce(inbox, batch, Math.max(1, timeoutInMs - elapsedInMs()), abortSignal), {
      maxAttempts: Infinity,
      timeoutInMs,
      shouldRetry: () => true,
      onFailure: (error) => {
        if (!abortSignal.aborted) onFailure(error);
      },
      backoff: (attempt) => fullJitter(attempt - 1, 100, 10_000),
      abortSignal,
    });
  } catch {
    return [];
  }
}

/** An inbox without types may return anything: no message may be handled on a claim that is not there. */
async function claimOnce<T>(inbox: Inbox, batch: readonly ReceivedMessage<T>[], timeoutInMs: number, signal: AbortSignal): Promise<readonly InboxClaimResult[]> {
  const deliveries = batch.map(({ delivery }) => delivery);
  const results = await callInbox((request) => inbox.claim(deliveries, request), { timeoutInMs, abortSignals: [signal] });
  if (!Array.isArray(results) || results.length !== batch.length || results.some((result: InboxClaimResult) => !claimKinds.includes(result.kind))) {
    throw new TypeError(`Inbox: claim must return one result for each of the ${batch.length} deliveries`);
  }
  return results.map((result: InboxClaimResult) => checkClaimResult("claim", result));
}

/** Checks a result of an inbox that an application may have written. */
export function checkClaimResult(method: string, result: InboxClaimResult): InboxClaimResult {
  if (!claimKinds.includes(result.kind)) throw new TypeError(`Inbox: ${method} must return one of the results that InboxClaimResult lists`);
  // Attempts are counted by it, for messages that cannot carry the count: with anything else, they would be retried for ever.
  if (result.kind === "claimed" && !isCount((result.claim as InboxClaim | undefined)?.failures)) {
    throw new TypeError("Inbox: the failures of a claim must be a whole number of 0 or more");
  }
  if (result.kind === "claimed" && result.claim.claims !== undefined && !isCount(result.claim.claims)) {
    throw new TypeError("Inbox: the claims of a claim must be a whole number of 0 or more");
  }
  return result;
}
