import type { StandardSchemaLike } from "../clients.js";
import { SchemaError } from "../errors.js";

/** Checks a value, and only that: what the schema makes of it is dropped, since a write would lose what it strips. */
export async function checkSchema<T>(
  schema: StandardSchemaLike<T>,
  value: T,
  phase: "read" | "write",
  url: string,
): Promise<void> {
  const { issues } = await schema["~standard"].validate(value);
  if (!issues) return;
  const what = phase === "read" ? `what is stored at ${url}` : `the new value for ${url}`;
  // Where, but not what the schema says of it: some quote the value, and messages end up in logs.
  const places = issues.map((issue) => pathOf(issue.path)).join(", ");
  throw new SchemaError(`${what} does not fit the schema, at ${places} (issues says why). Nothing was written.`, { phase, issues });
}

function pathOf(path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined): string {
  if (!path?.length) return "the top";
  return path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
}
