/** What the metadata of a lock's blob say: its number, and who has it. */
export interface LockRecord {
  /** The fencing token of the first holder under the present lease; those that it was handed on to follow it. */
  readonly epoch: number;
  /** How many numbers from `epoch` on are taken. */
  readonly reserved: number;
  /** Who acquired it: host, process, and an id of its own. */
  readonly holder: string | undefined;
  /** When, by the holder's clock. */
  readonly since: Date | undefined;
}

const names = { epoch: "asc_epoch", reserved: "asc_reserved", holder: "asc_holder", since: "asc_since" };

export function formatLockRecord(record: LockRecord): Record<string, string> {
  return {
    [names.epoch]: String(record.epoch),
    [names.reserved]: String(record.reserved),
    ...(record.holder !== undefined && { [names.holder]: encodeURIComponent(record.holder) }),
    ...(record.since && { [names.since]: record.since.toISOString() }),
  };
}

/** A blob without a record is a lock that nobody has had yet: its last number is 0. */
export function parseLockRecord(metadata: Record<string, string> | undefined): LockRecord {
  const read = (name: string): string | undefined =>
    Object.entries(metadata ?? {}).find(([key]) => key.toLowerCase() === name)?.[1];
  const epoch = numberFrom(read(names.epoch), 0);
  const since = new Date(read(names.since) ?? NaN);
  return {
    epoch,
    reserved: numberFrom(read(names.reserved), epoch === 0 ? 0 : 1),
    holder: decode(read(names.holder)),
    since: Number.isNaN(since.getTime()) ? undefined : since,
  };
}

/** The number that comes after all that were ever given out. */
export function nextEpoch(record: LockRecord): number {
  return Math.max(1, record.epoch + record.reserved);
}

function numberFrom(text: string | undefined, otherwise: number): number {
  const number = Number(text);
  return text !== undefined && Number.isSafeInteger(number) && number >= 0 ? number : otherwise;
}

function decode(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text);
  } catch {
    return text;
  }
}
