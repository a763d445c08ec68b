/** How an error is named in the whitelists: its code or name, and behind a slash what tells it from others of that code. */
export function labelOf(error: unknown): string {
  if (!(error instanceof Error)) return `thrown ${typeof error}`;
  const { name, code, reason, statusCode, details, committed } = error as Error & Record<"code" | "reason" | "details" | "committed", unknown> & { statusCode?: number };
  // An error of the library says whether something was written.
  if (committed !== undefined && typeof code === "string") return typeof reason === "string" ? `${code}/${reason}` : code;
  if (name !== "RestError") return name;
  if (statusCode === undefined) return typeof code === "string" ? `RestError/${code}` : "RestError/no response";
  const storageCode = (details as { errorCode?: unknown } | undefined)?.errorCode ?? code;
  return `RestError/${statusCode}${typeof storageCode === "string" ? ` ${storageCode}` : ""}`;
}

/** Whether a whitelist has the error, as a whole or by the part in front of the slash. */
export function isExpected(label: string, expected: readonly string[]): boolean {
  return expected.some((entry) => label === entry || label.startsWith(`${entry}/`) || label.startsWith(`${entry} `));
}

/** The library has said that nothing was written, and never will be. */
export function isCertain(error: unknown): boolean {
  return error instanceof Error && (error as { committed?: unknown }).committed === false;
}

/** What the fault proxies and the kills of other processes cause for a call of the SDK whose own retries are exhausted. */
export const networkFailures = ["RestError/500", "RestError/503", "RestError/ECONNRESET", "RestError/REQUEST_SEND_ERROR", "RestError/PARSE_ERROR", "RestError/no response", "RestError/EPIPE"] as const;

/** What the signal of a task causes that has waited long enough. */
export const outOfTime = ["TimeoutError", "AbortError"] as const;

/** What every update may say in a storm. */
export const updateFailures = ["CONFLICT", "OPERATION_TIMEOUT", "COMMIT_UNKNOWN"] as const;

/** What an acquisition and a hold may say in a storm with stopped and killed holders. */
export const lockFailures = ["LEASE_UNAVAILABLE", "LEASE_LOST/expired", "LEASE_LOST/unreachable", "LEASE_LOST/stolen", "OPERATION_TIMEOUT"] as const;

/** What producers and consumers of a queue may say in a storm. The handlers of the run meet each other, and the bare SDK is part of them. */
export const queueFailures = [...updateFailures, ...networkFailures, ...outOfTime, "MESSAGE_LOST", "LEASE_LOST", "OPERATION_TIMEOUT"] as const;
