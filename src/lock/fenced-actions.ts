import type { TransactionActionLike } from "../clients/table.js";
import { createError, ConflictError } from "../errors.js";
import { hasMarker } from "../target/stored-entity.js";
import type { EdmValue } from "../target/edm.js";
import { keptBy } from "../transaction/operations.js";
import type { Row } from "../transaction/row.js";

/** The rows that a holder has seen as entities, or written: they are not tombstones. */
export class SeenRows {
  readonly #rowKeys = new Set<string>();

  has(rowKey: string): boolean {
    return this.#rowKeys.has(rowKey);
  }

  add(rowKey: string): void {
    this.#rowKeys.add(rowKey);
    // Bounded: a holder may list millions of rows. One that is forgotten is read again when it is written.
    const [oldest] = this.#rowKeys;
    if (this.#rowKeys.size > maxSeenRows && oldest !== undefined) this.#rowKeys.delete(oldest);
  }

  delete(rowKey: string): void {
    this.#rowKeys.delete(rowKey);
  }
}

const maxSeenRows = 10_000;

/**
 * The actions of one `submit`, as they have to be sent. A transaction, or a delete, of a process that crashed may have left a
 * tombstone in place of an entity. To the service that row exists: a merge would leave its marker, so that the entity stays deleted
 * although the write was committed; an update would not fail; and a create would.
 */
export class FencedActions {
  readonly #actions: readonly TransactionActionLike[];
  readonly #url: string;
  /** The rows that were read for this submit. */
  #rows: ReadonlyMap<string, Row> = new Map();

  constructor(actions: readonly TransactionActionLike[], url: string) {
    this.#actions = actions;
    this.#url = url;
  }

  /** The rows to read before the first attempt: of writes that a tombstone would not make fail. */
  unknownRows(seen: SeenRows): string[] {
    return this.#actions.flatMap(([kind, { rowKey }, mode, condition]) => {
      const needsRow = kind === "update" ? condition?.etag === "*" : kind === "upsert" && mode === "Merge";
      return needsRow && !seen.has(rowKey) ? [rowKey] : [];
    });
  }

  /** The rows to read after a conflict: of creates, which a tombstone makes fail, and those that were read before. */
  conflictingRows(): string[] {
    return this.#actions.flatMap(([kind, { rowKey }]) => (kind === "create" || this.#rows.has(rowKey) ? [rowKey] : []));
  }

  /** Whether the actions are different ones now. */
  update(rows: ReadonlyMap<string, Row>): boolean {
    const before = this.#conditions();
    this.#rows = new Map([...this.#rows, ...rows]);
    return this.#conditions() !== before;
  }

  /** @throws {@link ConflictError} if an entity that is to be updated does not exist. */
  toSend(): TransactionActionLike[] {
    return this.#actions.map((action) => this.#actionFor(action));
  }

  #actionFor(action: TransactionActionLike): TransactionActionLike {
    const [kind, entity, mode = "Merge"] = action;
    const row = this.#rows.get(entity.rowKey);
    if (row?.etag === undefined || !isMarked(row)) return action;
    if (row.stored) {
      // Another client has merged an entity into a tombstone. It exists; only a Replace can remove the marker.
      const kept: readonly (readonly [string, EdmValue])[] = mode === "Merge" ? [...row.stored].filter(([, { unsendable }]) => !unsendable) : [];
      return kind === "create" ? action : ["update", { ...Object.fromEntries(kept), ...entity, ...keptBy("Replace", row) }, "Replace", { etag: row.etag }];
    }
    if (kind === "update") {
      throw createError(ConflictError, `The entity ${JSON.stringify(entity.rowKey)} of ${this.#url} does not exist, so it cannot be updated. Nothing was written.`, {
        url: this.#url,
        attempts: 1,
        elapsedInMs: 0,
        currentETag: undefined,
      });
    }
    return ["update", { ...entity, ...keptBy("Replace", row) }, "Replace", { etag: row.etag }];
  }

  #conditions(): string {
    return JSON.stringify([...this.#rows].flatMap(([rowKey, row]) => (isMarked(row) ? [[rowKey, row.etag]] : [])));
  }
}

function isMarked({ etag, stored }: Row): boolean {
  return etag !== undefined && (!stored || hasMarker(stored));
}
