import { notImplemented } from "./gaps.js";
import { parsePath, splitUrl } from "./request.js";
import type { FileRequest } from "./request.js";
import { verifySas } from "./shared-access-signature.js";
import type { Demand } from "./shared-access-signature.js";
import { verifySharedKey } from "./shared-key.js";
import type { Account } from "./shared-key.js";
import { StorageFault } from "./storage-fault.js";

/** Throws if the request is not authorized. */
export function authorize(request: FileRequest, account: Account, demand: Demand, now: number): void {
  if (request.headers["authorization"]?.startsWith("SharedKey ")) verifySharedKey(request, account);
  else if (request.query.has("sig")) verifySas(request, account, demand, now);
  else if (request.headers["authorization"] === undefined) throw new StorageFault("NoAuthenticationInformation");
  else throw new StorageFault("AuthenticationFailed");
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
}

/**
 * The other file that a copy or a rename names by its URL. A client with the account key may use every file; otherwise that URL
 * must contain its own token. The port is not checked: it may be that of a proxy.
 */
export function authorizeSource(request: FileRequest, url: string, account: Account, permissions: string, now: number): FileRequest["target"] {
  if (!URL.canParse(url)) throw new StorageFault("InvalidHeaderValue");
  const { hostname, pathname, search } = new URL(url);
  // A proxy in front of the server is on this machine, too.
  if (!isLoopback(hostname)) throw notImplemented("copies from other accounts");
  const target = parsePath(account.name, pathname, request.headers["x-ms-source-allow-trailing-dot"] === "true");
  const [, query] = splitUrl(search);
  if (!request.headers["authorization"]?.startsWith("SharedKey ")) {
    verifySas({ query, target }, account, { level: "object", permissions }, now);
  }
  if (target.share === undefined || target.path.length === 0) throw new StorageFault("InvalidHeaderValue");
  return target;
}
