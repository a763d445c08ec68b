import type { Model } from "./checker.js";
import type { Input, Output, Row, Tokens } from "./history.js";

/** One row. The ETag is undefined until a read has shown the ETag of this version. */
interface Cell {
  readonly tokens: Tokens;
  readonly etag: string | undefined;
}

type State = Readonly<Record<Row, Cell>>;

const absent: Cell = { tokens: null, etag: undefined };

/**
 * A blob, or two entities of one partition, under the operations of the library. Each call has its effect at one moment, or
 * none if it rejects with an error that says that nothing was written. `docs/guarantees` excludes nothing from this by name but
 * unknown outcomes (a `CommitUnknownError`, an abort while a write is in flight, a process that dies), which the checker
 * treats as operations without an output.
 */
export const objectModel: Model<State, Input, Output> = {
  initial: { main: absent, second: absent },
  key: ({ main, second }) => `${keyOf(main)} | ${keyOf(second)}`,
  isRead: (input, output) => output.kind !== "done" && (input.op === "read" || input.op === "keep" || output.kind === "rejected" || output.kind === "not found"),
  step: (state, input, output) => {
    // Nothing was written, whatever the state.
    if (output?.kind === "rejected") return state;
    switch (input.op) {
      case "transact add":
      case "transact move":
      case "transact read":
      case "transact create":
        return transact(state, input, output);
      default: {
        const next = change(state[input.row], input, output);
        return next && { ...state, [input.row]: next };
      }
    }
  },
};

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
