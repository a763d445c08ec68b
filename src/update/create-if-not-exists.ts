import type { BlockBlobLike } from "../clients.js";
import { isLeaseConflict } from "../core/storage-errors.js";
import { describeSpan, logger } from "../core/telemetry.js";
import { CommitUnknownError, ConflictError } from "../errors.js";
import type { GuardedTarget, UpdateTarget } from "../target/target.js";
import type { UpdateResult } from "./batch.js";
import { commit } from "./commit.js";
import { checkGroupSettings, resolveTarget } from "./options.js";
import type { TargetOptions } from "./options.js";
import { checkedResult } from "./read-target.js";
import { withRequestContext } from "./single-call.js";

/** How often a target that is there at one moment and gone at the next is tried. */
const maxAttempts = 10;

/**
 * Creates the target with this value unless it exists; says which by `outcome` (`"created"` or `"unchanged"`) and
 * returns what is stored. Costs 1 request if it is created, 2 if it exists (a file: 3 and 5).
 */
export async function createIfAbsent<T>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  value: T,
  options: TargetOptions = {},
): Promise<UpdateResult<T>> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  return withRequestContext("createIfAbsent", options, settings, adapter.url, async (context, { writing, attempts: trace, span }) => {
    const done = (result: UpdateResult<T>): UpdateResult<T> => {
      describeSpan(span, { outcome: result.outcome });
      return result;
    };
    const draft = adapter.encode(value, undefined);
    await adapter.check?.(value, "write");
    // A lease is always on something that exists, and with its id the service would let If-None-Match overwrite that.
    const leased = settings.leaseId === undefined ? undefined : await adapter.read(context);
    if (leased) return done({ ...(await checkedResult(adapter, leased, context.journalName)), outcome: "unchanged", attempts: 0 });
    const started = performance.now();
    for (let attempts = 1; ; attempts++) {
      trace.begin();
      const plan = { base: undefined, draft, journaling: settings.journaling };
      const verdict = await writing(() => commit(adapter, plan, context));
      // Refused for a lease: what is leased exists, and can be read.
      if (verdict.kind === "refused" && !isLeaseConflict(verdict.error)) throw verdict.error;
      if (verdict.kind === "landed") {
        const etag = verdict.found && !verdict.overtaken ? verdict.found.etag : adapter.staleETag;
        return done({ value: adapter.decode(draft), etag, outcome: "created", attempts });
      }
      // What is there now may be ours or not: "unchanged" could be as wrong as "created".
      if (verdict.kind === "unknown") {
        throw new CommitUnknownError(`whether ${adapter.url} was created cannot be known`, { attempts, cause: verdict.error });
      }
      const found = (verdict.kind === "race" && verdict.found) || (await adapter.read(context));
      if (found) return done({ ...(await checkedResult(adapter, found, context.journalName)), outcome: "unchanged", attempts });
      trace.end("race");
      logger.verbose(`lost a race for ${adapter.url}`);
      if (attempts >= maxAttempts) {
        const facts = { attempts, elapsedInMs: performance.now() - started, lastETag: undefined, cause: verdict.error };
        throw new ConflictError(`${adapter.url} is made and deleted again and again. It was not created by this call.`, facts);
      }
    }
  }, { targetKind: adapter.kind });
}
