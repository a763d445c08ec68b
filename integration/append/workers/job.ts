/** What a test asks of a process that appends, and what it reports. */
export interface AppendJob {
  /** Leads through the fault proxy. */
  readonly connectionString: string;
  readonly container: string;
  readonly blob: string;
  /** One list for each appender of the process; all of them append at the same time, each its own list in order. */
  readonly lists: readonly (readonly string[])[];
  readonly uniqueRecords: boolean;
  readonly coalesce: boolean;
}

export interface Appended {
  readonly list: number;
  readonly record: string;
  /** Null: nobody knows whether it is there. */
  readonly offset: number | null;
}
