import { ContentChangedError, DeadlineError } from "../errors.js";
import { explain } from "../update/explain.js";
import type { RangeSource } from "./range-source.js";
import { maxFruitlessTries, TryTimeout } from "./timed-request.js";

/** The version that is being read is no more. */
export class VersionGone extends Error {
  override readonly name = "VersionGone";
  readonly etag: string;

  constructor(etag: string, cause?: unknown) {
    super("the blob is no longer the version that is being read", { cause });
    this.etag = etag;
  }
}

/** What a caller gets to see of an error. */
export function explainDownload(error: unknown, { url, settings }: RangeSource, restarts: number): unknown {
  if (error instanceof VersionGone) {
    const after = restarts === 0 ? "" : `, after ${restarts} restarts`;
    return new ContentChangedError(
      `${url} was rewritten or deleted while it was downloaded${after}. Try again later, or download a snapshot of it.`,
      { url, etag: error.etag, restarts, cause: error.cause },
    );
  }
  if (error instanceof TryTimeout) {
    const { tryTimeoutInMs } = settings;
    const message = `${url}: no answer within ${tryTimeoutInMs} ms (tryTimeoutInMs), ${maxFruitlessTries} times in a row`;
    return new DeadlineError(message, { elapsedInMs: maxFruitlessTries * tryTimeoutInMs });
  }
  return explain(error, url);
}
