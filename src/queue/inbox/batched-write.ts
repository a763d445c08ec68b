import type { TransactionActionLike } from "../../clients/table.js";

/** A write of one or more rows of a partition, sent to the table together with others. Its rows are written all or none. */
export interface BatchedWrite {
  /** The rows, which may change with what is found. The first one is conditional on its own ETag, or created. */
  readonly rows: readonly BatchedRow[];
  /** Whether nothing is left to do. */
  readonly settled: boolean;
}

/** One row of a {@link BatchedWrite}. */
export interface BatchedRow {
  readonly rowKey: string;
  /** The ETag that the row must have for the write to be committed; undefined: the row must not exist. Read of the first row only. */
  readonly baseETag: string | undefined;
  /** Whether it must be read before the write can be sent, or settled. */
  readonly unread: boolean;
  /** What to send. The first row of a write contains `batch`, which shows later that the whole batch was committed. */
  action(batch: string): TransactionActionLike;
  /** The write was committed. A row that needs the ETag, and does not get it, is unread. */
  committed(etag: string | undefined): void;
  /** What the table contains: settles the write, or prepares it to be sent again on that basis. */
  found(entity: object | undefined): void;
}
