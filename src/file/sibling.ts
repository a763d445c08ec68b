import type { FileLike } from "../clients.js";

/**
 * A client for another file in the same directory, with the same rights and policies. The SDK offers no way from a
 * file to its directory; so this does what its own `withShareSnapshot` does: the same class, on another URL, with the
 * same pipeline.
 */
export function siblingOf(file: FileLike, name: string): FileLike {
  const { pipeline, shareClientConfig } = file as { pipeline?: unknown; shareClientConfig?: unknown };
  if (typeof pipeline !== "object" || pipeline === null) throw new TypeError("not a ShareFileClient: it has no pipeline");
  const url = new URL(file.url);
  url.pathname = url.pathname.slice(0, url.pathname.lastIndexOf("/") + 1) + encodeURIComponent(name);
  return Reflect.construct(file.constructor, [url.toString(), pipeline, shareClientConfig]) as FileLike;
}
