import type { Input, Output, Tokens } from "./history.js";

/** One operation in words, for counter-examples. */
export function describeOperation(input: Input, output: Output | undefined): string {
  return `${describeInput(input)} → ${output ? describeOutput(output) : "unknown"}`;
}

function describeInput(input: Input): string {
  const row = "row" in input && input.row === "second" ? " second row" : "";
  const token = "token" in input ? ` ${input.token}` : "";
  const initial = input.op === "update" && input.initial ? " (initial)" : "";
  const version = input.op === "deleteIfUnchanged" ? ` ${describeTokens(input.tokens)} ${input.etag}` : "";
  return `${input.op}${row}${token}${initial}${version}`;
}

function describeOutput(output: Output): string {
  switch (output.kind) {
    case "value":
      return `${output.outcome ? `${output.outcome} ` : ""}${describeTokens(output.tokens)}${output.etag ? ` ${output.etag}` : ""}`;
    case "rows":
      return `${describeTokens(output.main)} and ${describeTokens(output.second)}`;
    case "rejected":
      return `rejected: ${output.error}`;
    default:
      return output.kind;
  }
}

function describeTokens(tokens: Tokens): string {
  return tokens === null ? "absent" : `[${tokens.join(",")}]`;
}
