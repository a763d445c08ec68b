import type { FileRequest } from "../request.js";
import type { FileEntry } from "../tree.js";

const names = ["content-type", "content-encoding", "content-language", "content-disposition", "cache-control", "content-md5"] as const;

/** The HTTP headers that a request sets. Those that it does not name are cleared, as documented for all that set some. */
export function httpHeadersOf({ headers }: FileRequest): Map<string, string> {
  const set = new Map<string, string>();
  for (const name of names) {
    const value = headers[`x-ms-${name}`];
    if (value !== undefined && value !== "") set.set(name, value);
  }
  return set;
}

export function httpHeadersFor(file: FileEntry): Record<string, string> {
  return { "content-type": "application/octet-stream", ...Object.fromEntries(file.httpHeaders) };
}
