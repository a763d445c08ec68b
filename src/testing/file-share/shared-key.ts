import { createHmac, timingSafeEqual } from "node:crypto";
import type { FileRequest } from "./request.js";
import { StorageFault } from "./storage-fault.js";

export interface Account {
  readonly name: string;
  /** Base64. */
  readonly key: string;
}

const signedHeaders = [
  "content-language",
  "content-encoding",
  "content-length",
  "content-md5",
  "content-type",
  "date",
  "if-modified-since",
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "range",
] as const;

/** Verifies an `Authorization: SharedKey` header. Host and port are not signed, so a proxy is possible. */
export function verifySharedKey(request: FileRequest, account: Account): void {
  const [, name, signature] = /^SharedKey ([^:]+):(.+)$/.exec(request.headers["authorization"] ?? "") ?? [];
  if (name !== account.name || signature === undefined || !isSignature(signature, stringToSign(request, account.name), account)) {
    throw new StorageFault("AuthenticationFailed");
  }
}

export function isSignature(signature: string, signed: string, account: Account): boolean {
  const expected = createHmac("sha256", Buffer.from(account.key, "base64")).update(signed, "utf8").digest();
  const given = Buffer.from(signature, "base64");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function stringToSign({ method, rawPath, query, headers }: FileRequest, account: string): string {
  const values = signedHeaders.map((name) => {
    const value = headers[name] ?? "";
    return name === "content-length" && value === "0" ? "" : value;
  });
  const canonicalHeaders = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .sort(byCulture)
    .map((name) => `${name}:${headers[name]?.trimStart() ?? ""}\n`);
  const canonicalQuery = [...query.keys()].sort().map((name) => `\n${name}:${query.get(name) ?? ""}`);
  return `${[method, ...values].join("\n")}\n${canonicalHeaders.join("")}/${account}${rawPath}${canonicalQuery.join("")}`;
}

/**
 * The service sorts header names as .NET does for English, and so do the SDKs: dashes are ignored, and an underscore comes before
 * digits and letters. Names that differ only in dashes do not occur.
 */
function byCulture(a: string, b: string): number {
  const [x, y] = [sortKey(a), sortKey(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

function sortKey(name: string): string {
  return name.replaceAll("-", "").replaceAll("_", " ");
}
