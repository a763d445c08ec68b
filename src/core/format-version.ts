import { createError, SchemaError } from "../errors.js";

/**
 * The property of a row, or the entry of the metadata of a blob, with the version of its format. No version of the library has written one so
 * far: what has none is version 1. A later version that adds something which earlier ones may ignore needs none either. One that
 * changes what earlier ones rely on writes a number here, and they leave alone what has it: in a fleet that is upgraded instance by instance,
 * both run side by side.
 */
export const formatVersionName = "asc_version";

/** Whether only a later version of the library can read what has this version. What is not a version counts as a later one. */
export function isLaterFormat(version: unknown): boolean {
  return version !== undefined && version !== null && version !== 1 && version !== 1n && version !== "1";
}

/** Of a row, as the SDK returned it. */
export function isLaterRow(row: object): boolean {
  const version = (row as Readonly<Record<string, unknown>>)[formatVersionName];
  // With `disableTypeConversion`, a property is an object with its text.
  return isLaterFormat(typeof version === "object" && version !== null ? (version as { value?: unknown }).value : version);
}

/** Of metadata, whose names come back in any case. */
export function isLaterMetadata(metadata: Readonly<Record<string, string>> | undefined): boolean {
  return Object.entries(metadata ?? {}).some(([name, value]) => name.toLowerCase() === formatVersionName && isLaterFormat(value));
}

/** Without the ETag: what can be deleted because it is damaged has one, and this is not damaged. */
export function laterFormatError(what: string, url: string): SchemaError {
  const message = `${what} in ${url} was written by a later version of this library, which this process does not have. It was not changed. Update this process.`;
  return createError(SchemaError, message, { url, phase: "read", issues: [{ message: formatVersionName }], etag: undefined });
}
