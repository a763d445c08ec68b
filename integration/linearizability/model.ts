import type { Model, Operation } from "./checker.js";
import type { Input, Output, Row, Tokens } from "./history.js";

/** One row. The ETag is undefined until a read has shown the ETag of this version. */
interface Cell {
  readonly tokens: Tokens;
  readonly etag: string | undefined;
}

type State = Readonly<Record<Row, Cell>>;

const absent: Cell = { tokens: null, etag: undefined };

/** The row exists, with content that no call has seen. */
const unseen: Cell = { tokens: ["?"], etag: undefined };

/**
 * A blob, or two entities of one partition, under the operations of the library. Each call has its effect at one moment, or
 * none if it rejects with an error that says that nothing was written. `docs/guarantees` excludes nothing from this by name but
 * unknown outcomes (a `CommitUnknownError`, an abort while a write is in flight, a process that dies), which the checker
 * treats as operations without an output.
 *
 * Content that no call of the history has seen, and that is not the beginning of such content either, cannot be seen later:
 * tokens are only added. All such content is one state, as otherwise the search would try all orders of the writes that
 * nothing is known of.
 */
export function modelFor(history: readonly Operation<Input, Output>[]): Model<State, Input, Output> {
  const seen = new Seen(history);
  return {
    initial: { main: absent, second: absent },
    key: ({ main, second }) => `${keyOf(main)} | ${keyOf(second)}`,
    isRead: ({ op }, { kind }) => op === "read" || op === "keep" || kind === "rejected" || (kind === "not found" && op !== "deleteIfUnchanged"),
    effectOf: (input) => ("token" in input && seen.hasToken(input.token) ? undefined : JSON.stringify({ ...input, token: "" })),
    step: (state, input, output) => {
      // Nothing was written, whatever the state.
      if (output?.kind === "rejected") return state;
      const next = "row" in input ? changeRow(state, input, output) : transact(state, input, output);
      return next && { main: seen.merged(next.main), second: seen.merged(next.second) };
    },
  };
}

/** What the calls of a history have seen. */
class Seen {
  readonly #beginnings = new Set<string>();
  readonly #tokens = new Set<string>();

  constructor(history: readonly Operation<Input, Output>[]) {
    for (const { input, output } of history) {
      if (input.op === "deleteIfUnchanged") this.#add(input.tokens);
      if (output?.kind === "value") this.#add(output.tokens);
      if (output?.kind === "rows") [output.main, output.second].forEach((tokens) => this.#add(tokens));
    }
  }

  hasToken(token: string): boolean {
    return this.#tokens.has(token);
  }

  merged(cell: Cell): Cell {
    return cell.tokens === null || this.#beginnings.has(cell.tokens.join()) ? cell : unseen;
  }

  #add(tokens: Tokens): void {
    for (const [i, token] of (tokens ?? []).entries()) {
      this.#tokens.add(token);
      this.#beginnings.add((tokens ?? []).slice(0, i + 1).join());
    }
  }
}

function changeRow(state: State, input: Extract<Input, { row: Row }>, output: Output | undefined): State | undefined {
  const next = change(state[input.row], input, output);
  return next && { ...state, [input.row]: next };
}

/** The row after an operation on it alone; undefined: the output is impossible. */
function change(cell: Cell, input: Extract<Input, { row: Row }>, output: Output | undefined): Cell | undefined {
  const { tokens } = cell;
  switch (input.op) {
    case "read":
      if (output === undefined) return cell;
      return output.kind === "value" ? identified(cell, output.tokens, output.etag) : undefined;
    case "keep":
      if (output === undefined) return cell;
      if (output.kind === "not found") return tokens === null ? cell : undefined;
      return output.kind === "value" && output.outcome === "unchanged" && tokens !== null && equal(tokens, output.tokens) ? cell : undefined;
    case "update": {
      if (tokens === null && !input.initial) return output === undefined || output.kind === "not found" ? cell : undefined;
      const after = [...(tokens ?? []), input.token];
      const expected = tokens === null ? "created" : "updated";
      return output === undefined || (isValue(output, after) && output.outcome === expected) ? written(after) : undefined;
    }
    case "create":
      if (tokens === null) return output === undefined || (isValue(output, [input.token]) && output.outcome === "created") ? written([input.token]) : undefined;
      if (output === undefined) return cell;
      return output.kind === "value" && output.outcome === "unchanged" ? identified(cell, output.tokens, output.etag) : undefined;
    case "delete":
      if (tokens === null) return output === undefined || output.kind === "not found" ? cell : undefined;
      return output === undefined || (isValue(output, tokens) && output.outcome === "deleted") ? absent : undefined;
    case "deleteIfUnchanged": {
      const found = identified(cell, input.tokens, input.etag);
      if (output === undefined) return found ? absent : cell;
      if (output.kind === "done") return found && absent;
      if (output.kind === "not found") return tokens === null ? cell : undefined;
      // Wrong only if this is known to be the version that the caller has read.
      return output.kind === "changed" && !(found && cell.etag !== undefined) ? cell : undefined;
    }
    case "overwrite":
      return output === undefined || output.kind === "done" ? written([input.token]) : undefined;
  }
}

function transact(state: State, input: Extract<Input, { op: `transact ${string}` }>, output: Output | undefined): State | undefined {
  const { main, second } = state;
  if (input.op === "transact create") {
    if (main.tokens === null) return output === undefined || output.kind === "done" ? { main: written([input.token]), second } : undefined;
    return output === undefined || output.kind === "already exists" ? { main: touched(main), second } : undefined;
  }
  if (output !== undefined && !(output.kind === "rows" && equal(output.main, main.tokens) && equal(output.second, second.tokens))) return undefined;
  const added = (cell: Cell): Cell => ("token" in input ? written([...(cell.tokens ?? []), input.token]) : cell);
  if (input.op === "transact add") return { main: added(main), second: added(second) };
  if (input.op === "transact move" && main.tokens !== null) return { main: absent, second: added(second) };
  return { main: touched(main), second: touched(second) };
}

/** The row with this content, if it can have this ETag. */
function identified(cell: Cell, tokens: Tokens, etag: string | undefined): Cell | undefined {
  if (!equal(cell.tokens, tokens)) return undefined;
  if (cell.etag !== undefined && etag !== undefined && cell.etag !== etag) return undefined;
  return { tokens, etag: cell.etag ?? etag };
}

/** A version that was just written: its ETag is not known. */
function written(tokens: Tokens): Cell {
  return { tokens, etag: undefined };
}

/** A transaction may rewrite the rows that it reads (docs/transactions.md), which changes their ETags. */
function touched({ tokens }: Cell): Cell {
  return { tokens, etag: undefined };
}

function isValue(output: Output, tokens: Tokens): output is Extract<Output, { kind: "value" }> {
  return output.kind === "value" && equal(output.tokens, tokens);
}

function equal(a: Tokens, b: Tokens): boolean {
  return a === null || b === null ? a === b : a.length === b.length && a.every((token, i) => token === b[i]);
}

function keyOf({ tokens, etag }: Cell): string {
  return tokens === null ? "absent" : `${tokens.join(",")} ${etag ?? "any ETag"}`;
}
