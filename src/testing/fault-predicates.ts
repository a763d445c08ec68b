import type { FaultPredicate, FaultRequest } from "./fault-rule.js";

const writeMethods: ReadonlySet<string> = new Set(["PUT", "POST", "MERGE", "PATCH", "DELETE"]);

/** PUT, POST, MERGE, PATCH and DELETE. Entity group transactions are among them, lease operations too. */
export function isWrite(request: Pick<FaultRequest, "method">): boolean {
  return writeMethods.has(request.method);
}

/** GET and HEAD. Receiving queue messages is a GET, although it hides them. */
export function isRead(request: Pick<FaultRequest, "method">): boolean {
  return request.method === "GET" || request.method === "HEAD";
}

/** Batches: `submitTransaction` of a table client, and blob batches. */
export function isBatch(request: FaultRequest): boolean {
  return request.path.endsWith("/$batch") || request.query.get("comp") === "batch";
}

/** Lease operations, of one kind or of any. */
export function isLease(action?: "acquire" | "renew" | "change" | "release" | "break"): FaultPredicate {
  return (request) =>
    request.query.get("comp") === "lease" && (action === undefined || request.headers["x-ms-lease-action"] === action);
}

/** Requests that all of the predicates accept. */
export function allOf(...predicates: readonly FaultPredicate[]): FaultPredicate {
  return (request) => predicates.every((accepts) => accepts(request));
}
