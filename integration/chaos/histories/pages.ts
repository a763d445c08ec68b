/** The sequence number with which a writer claimed the pages, and the number of its write. */
interface Version {
  readonly number: number;
  readonly write: number;
}

/** What the writers and readers of the same pages recorded, in the time of the machine. */
export type PageEvent =
  /** A writer has claimed the blob. */
  | { readonly kind: "claimed"; readonly number: number; readonly from: number; readonly to: number }
  /** A write was confirmed. The writes of a writer come one after the other. */
  | ({ readonly kind: "written"; readonly from: number; readonly to: number } & Version)
  /** A read has found what this write wrote, confirmed or not. */
  | ({ readonly kind: "read"; readonly from: number; readonly to: number } & Version);

/**
 * What is wrong: two claims with one number, a confirmed write that began when another writer had already claimed the pages, or a read that
 * began after a write was confirmed and found one that should have been rejected or overwritten by then.
 */
export function checkPages(events: readonly PageEvent[]): string[] {
  const problems: string[] = [];
  const claims = events.filter((event) => event.kind === "claimed");
  const writes = events.filter((event) => event.kind === "written");
  const numbers = new Set<number>();
  for (const { number } of claims) {
    if (numbers.has(number)) problems.push(`two writers have the number ${number}`);
    numbers.add(number);
  }
  for (const write of writes) {
    const successor = claims.find(({ number, to }) => number > write.number && to < write.from);
    if (successor) problems.push(`${nameOf(write)} began ${(write.from - successor.to).toFixed(1)} ms after ${successor.number} had claimed the pages`);
  }
  for (const read of events) {
    if (read.kind !== "read") continue;
    const newer = writes.find((write) => write.to < read.from && isAfter(write, read));
    if (newer) problems.push(`a read found ${nameOf(read)} after ${nameOf(newer)} was confirmed`);
  }
  return problems;
}

function isAfter(a: Version, b: Version): boolean {
  return a.number > b.number || (a.number === b.number && a.write > b.write);
}

function nameOf({ number, write }: Version): string {
  return `write ${write} of ${number}`;
}
