import { normalizeLeaseId } from "./lease-id.js";
import { StorageFault } from "./storage-fault.js";

/** A request as it was received, and its target. */
export interface FileRequest {
  readonly method: string;
  /** As on the wire: a signature covers this form. */
  readonly rawPath: string;
  readonly query: ReadonlyMap<string, string>;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly target: ResourcePath;
}

export interface ResourcePath {
  /** Undefined for the account itself. */
  readonly share: string | undefined;
  /** Decoded names below the share. */
  readonly path: readonly string[];
}

export function parseRequest(account: string, method: string, url: string, headers: Record<string, string>, body: Buffer): FileRequest {
  const [rawPath, query] = splitUrl(url);
  const keepDots = headers["x-ms-allow-trailing-dot"] === "true";
  return { method, rawPath, query, headers, body, target: parsePath(account, rawPath, keepDots) };
}

export function splitUrl(url: string): [path: string, query: Map<string, string>] {
  const at = url.indexOf("?");
  const path = at < 0 ? url : url.slice(0, at);
  const query = new Map<string, string>();
  for (const pair of at < 0 ? [] : url.slice(at + 1).split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const [name, value] = equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
    // Not URLSearchParams: it decodes a plus sign as a space, and signatures contain plus signs.
    query.set(decode(name).toLowerCase(), decode(value));
  }
  return [path, query];
}

/**
 * `/account/share/path`, or `/share/path` as with an account in the host name: the SDK's rename drops the first part of an IP-style
 * URL. A share must therefore not have the name of the account.
 */
export function parsePath(account: string, rawPath: string, keepTrailingDots: boolean): ResourcePath {
  // An encoded slash separates names, too.
  const parts = decode(rawPath).split("/").filter((part) => part !== "");
  if (parts[0] === account) parts.shift();
  const [share, ...path] = parts;
  return { share, path: path.map((name) => checkName(keepTrailingDots ? name : name.replace(/\.+$/, ""))) };
}

export function leaseIdOf(request: FileRequest, header = "x-ms-lease-id"): string | undefined {
  const value = request.headers[header];
  return value === undefined || value === "" ? undefined : normalizeLeaseId(value);
}

export function requiredHeader(request: FileRequest, name: string): string {
  const value = request.headers[name];
  if (value === undefined) throw new StorageFault("MissingRequiredHeader");
  return value;
}

export function numberIn(value: string, code: "InvalidHeaderValue" | "InvalidQueryParameterValue" = "InvalidHeaderValue"): number {
  if (!/^-?\d{1,15}$/.test(value)) throw new StorageFault(code);
  return Number(value);
}

function checkName(name: string): string {
  if (name === "" || name.length > 255 || /["\\/:|<>*?\u0000-\u001f]/.test(name)) throw new StorageFault("InvalidResourceName");
  return name;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new StorageFault("InvalidUri");
  }
}
