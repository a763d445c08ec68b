import { cp, mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** A piece of a compiled file, and what replaces it. */
export interface Replacement {
  readonly file: string;
  readonly find: string;
  readonly replaceBy: string;
}

/** A guarantee that can be removed from the library. */
interface BrokenGuarantee {
  /** What does not hold any more. */
  readonly breaks: string;
  /** The scenarios of which at least one has to fail. */
  readonly scenarios: readonly string[];
  readonly replacements: readonly Replacement[];
}

/** The guarantees that can be removed from the library, to prove that a chaos run notices. */
export const breakable = {
  journal: {
    breaks: "an update recognises its own write after a lost response: it believes the response to its last send, as loops on the plain SDK do",
    scenarios: ["hot entity", "hot blob", "one object", "transfers"],
    replacements: [
      { file: "update/options.js", find: "journaling: journal !== false", replaceBy: "journaling: false" },
      {
        file: "update/commit.js",
        find: "recognise: (found, reason, error) => recognise(",
        replaceBy: `recognise: (found, reason, error) => error?.statusCode === 412 ? "not committed" : recognise(`,
      },
    ],
  },
  fence: {
    breaks: "a holder neither notices the number of its successor, nor makes its writes depend on the fence row",
    scenarios: ["table lock"],
    replacements: [
      { file: "lock/fence.js", find: "if (fencedBy <= epoch)", replaceBy: "if (true)" },
      { file: "lock/fence-row.js", find: `["update", fence, "Merge", { etag: row.etag }]`, replaceBy: `["upsert", fence, "Merge"]` },
    ],
  },
  inbox: {
    breaks: "a message whose key is completed is not handled again",
    scenarios: ["queue, claim", "queue, commit"],
    replacements: [
      { file: "queue/inbox/commit-once.js", find: `["create", entityOf(`, replaceBy: `["upsert", entityOf(` },
      { file: "queue/inbox/record.js", find: `if (record.state === "done")`, replaceBy: `if (false)` },
    ],
  },
  groups: {
    breaks: "a message of a group starts only when no handler of another one has the group, and its turn has come",
    scenarios: ["queue, groups"],
    replacements: [
      { file: "queue/inbox/group-row.js", find: `return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : { kind: "free" };`, replaceBy: `return { kind: "free" };` },
      { file: "queue/inbox/group-row.js", find: `if (sequence > lastSequence + 1)`, replaceBy: `if (false)` },
    ],
  },
  claims: {
    breaks: "a message waits while another one with the same key is handled",
    scenarios: ["queue, claim"],
    replacements: [{ file: "queue/inbox/record.js", find: `return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : { kind: "free", failures };`, replaceBy: `return { kind: "free", failures };` }],
  },
  chain: {
    breaks: "what a handler sends in its transaction is sent when it is committed",
    scenarios: ["queue, chain"],
    replacements: [{ file: "queue/handler-transaction.js", find: `return { value, outgoing: checkOutgoing("transaction", messages) };`, replaceBy: `return { value, outgoing: [] };` }],
  },
  outbox: {
    breaks: "a message is sent only if its transaction is committed",
    scenarios: ["outbox"],
    replacements: [{ file: "outbox/outbox-commit.js", find: `if (outcome === "committed" && this.#row)`, replaceBy: `if (this.#row)` }],
  },
  relay: {
    breaks: "a message whose process was killed after the commit is sent by another one",
    scenarios: ["outbox"],
    replacements: [{ file: "outbox/relay-loop.js", find: `isIncomplete = await this.#relayOnce();`, replaceBy: `isIncomplete = false;` }],
  },
  transactions: {
    breaks: "a transaction writes a row only if it is as it was read",
    scenarios: ["transfers", "one object"],
    replacements: [{ file: "transaction/operations.js", find: "const etag = { etag: base.etag };", replaceBy: `const etag = { etag: "*" };` }],
  },
  append: {
    breaks: "an append whose response was lost is not appended again",
    scenarios: ["append"],
    replacements: [
      { file: "append/append-block.js", find: "claimed ? { ifMatch: state.etag } : {}", replaceBy: "{}" },
      { file: "append/append-block.js", find: "conditions: { ...conditions, appendPosition: position }", replaceBy: "conditions" },
    ],
  },
  ids: {
    breaks: "the ids of two reservations do not overlap",
    scenarios: ["ids"],
    replacements: [{ file: "ids/id-allocator.js", find: "counter.next = stored(next + size);", replaceBy: "counter.next = stored(next + size - 1);" }],
  },
  errors: {
    breaks: "an allocator rejects with nothing but what it documents: here it throws a TypeError in every fifth call",
    scenarios: ["ids"],
    replacements: [{ file: "ids/id-allocator.js", find: "if (this.#closed)\n            throw new TypeError", replaceBy: "if (this.#closed || Math.random() < 0.2)\n            throw new TypeError" }],
  },
  reads: {
    breaks: "a download is of one version",
    scenarios: ["reads"],
    replacements: [
      { file: "read/range-source.js", find: "...(ifMatch !== undefined && { ifMatch })", replaceBy: "...{}" },
      { file: "read/pinned-range.js", find: "response.etag !== etag", replaceBy: "false" },
    ],
  },
  watch: {
    breaks: "a watch goes on after a poll that failed",
    scenarios: ["watches"],
    replacements: [{ file: "read/poller.js", find: "if (!mayPollAgain(error))", replaceBy: "if (true)" }],
  },
  changes: {
    breaks: "a watch yields the last state",
    scenarios: ["watches"],
    replacements: [{ file: "read/poller.js", find: "const isKnown = this.#known?.etag === snapshot.etag;", replaceBy: "const isKnown = this.#known !== undefined && Math.random() < 0.8;" }],
  },
  pages: {
    breaks: "a writer whose pages another one has claimed is rejected",
    scenarios: ["pages"],
    replacements: [{ file: "page/page-writer.js", find: "ifSequenceNumberEqualTo: number", replaceBy: "" }],
  },
  once: {
    breaks: "one call at a time runs the function of a key, and stores its result",
    scenarios: ["idempotent calls"],
    replacements: [{ file: "once/once-record.js", find: "return retryAfterInMs > 0 ?", replaceBy: "return false ?" }],
  },
  schedule: {
    breaks: "a due time whose process was killed does not start again, if the job says so",
    scenarios: ["scheduled jobs"],
    replacements: [{ file: "schedule/job-runner.js", find: `(onCrash === "fail" || dead.attempt >= maxAttempts)`, replaceBy: "false" }],
  },
  dueTimes: {
    breaks: "no due time is left out",
    scenarios: ["scheduled jobs"],
    replacements: [{ file: "schedule/job-state.js", find: "const due = times.next(cursor);", replaceBy: "const next = times.next(cursor);\nconst due = next % 5_000 === 0 ? times.next(next) : next;" }],
  },
  deadline: {
    breaks: "a holder learns from the clock that its lease may have expired, not from responses only",
    scenarios: ["locks", "leases", "election", "balancer"],
    replacements: [{ file: "lease/held-lease.js", find: "marginInMs: () => times.safetyMarginInMs", replaceBy: "marginInMs: () => -Infinity" }],
  },
  epochs: {
    breaks: "every holder of a lock has a larger epoch than all before it",
    scenarios: ["locks"],
    replacements: [{ file: "lock/epoch-allocator.js", find: "Math.max(await blob.startEpoch(base.record, this.#floor), nextEpoch(base.record), leastEpoch)", replaceBy: "1" }],
  },
  slots: {
    breaks: "all slots of a semaphore are used: here only the first one is",
    scenarios: ["semaphore"],
    replacements: [{ file: "lock/slot-choice.js", find: "this.#isOpen = isOpen;", replaceBy: "this.#isOpen = (slot) => slot === 0 && isOpen(slot);" }],
  },
  moreSlots: {
    breaks: "a semaphore has no more slots than it should",
    scenarios: ["semaphore"],
    replacements: [{ file: "lock/slot-choice.js", find: "this.#slots = slots;", replaceBy: "this.#slots = slots + 1;" }],
  },
  readers: {
    breaks: "a writer waits until the readers have left",
    scenarios: ["readers and writer"],
    replacements: [{ file: "lock/reader-writer-lock.js", find: "const [first] = readers;", replaceBy: "const first = readers[1e9];" }],
  },
  election: {
    breaks: "a candidate takes part again after it has resigned: here only once",
    scenarios: ["election"],
    replacements: [{ file: "lock/leader-election.js", find: "await delay(jitter(this.#cooldownInMs * 0.75, 1 / 3), stopped).catch(() => undefined);", replaceBy: "return;" }],
  },
  balancer: {
    breaks: "a shard without an owner gets one",
    scenarios: ["balancer"],
    replacements: [{ file: "balancer/plan-shards.js", find: "if (owner === undefined && lacking[next++]?.id === id)", replaceBy: "if (owner === undefined && shard === 0)" }],
  },
  crashGuard: {
    breaks: "the lease of a dead holder is taken over",
    scenarios: ["settings file"],
    replacements: [{ file: "lease/crash-guard.js", find: "if (searched || !isLeaseTaken(error))", replaceBy: "if (true)" }],
  },
} as const satisfies Readonly<Record<string, BrokenGuarantee>>;

export type Breakable = keyof typeof breakable;

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Guarantees that one run can do without at the same time, since the scenarios of each do not depend on the others: all of them are noticed in the
 * time of one.
 */
export const breakableTogether = ["errors", "reads", "pages", "append", "once", "claims", "groups", "outbox", "slots", "readers", "election", "dueTimes"] as const satisfies readonly Breakable[];

/** The URL of the build to import: `dist`, or a copy of it without some of its guarantees. */
export async function libraryUrl(broken: readonly Breakable[]): Promise<string> {
  if (broken.length === 0) return pathToFileURL(join(root, "dist", "index.js")).href;
  const folder = await mkdtemp(join(tmpdir(), "azure-storage-concurrency-broken-"));
  await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
  await cp(join(root, "package.json"), join(folder, "package.json"));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  for (const replacement of broken.flatMap((guarantee): readonly Replacement[] => breakable[guarantee].replacements)) {
    const path = join(folder, "dist", replacement.file);
    await writeFile(path, replaced(await readFile(path, "utf8"), replacement));
  }
  return pathToFileURL(join(folder, "dist", "index.js")).href;
}

/** Throws if the code has changed since: it would be left intact, and the run would prove nothing. */
export function replaced(code: string, { file, find, replaceBy }: Replacement): string {
  if (code.split(find).length !== 2) throw new Error(`${file} does not have exactly one ${JSON.stringify(find)}: nothing was broken`);
  return code.replace(find, () => replaceBy);
}
