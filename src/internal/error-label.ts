/**
 * What may be said of any error in logs and on spans: its name, code and status. Never its message: that of a
 * caller's function may speak of payloads, and that of the SDK may quote the URL of the request with its SAS (in a
 * browser it does).
 */
export function errorLabel(error: unknown): string {
  const { code, statusCode } = factsOf(error);
  const facts = [code, statusCode].filter((fact) => isLabel(fact) || typeof fact === "number");
  return facts.length > 0 ? `${errorType(error)} (${facts.join(", ")})` : errorType(error);
}

/** The name of an error; for what is no error, its type. */
export function errorType(error: unknown): string {
  const { name } = factsOf(error);
  return isLabel(name) ? name : typeof error;
}

/** Whether the caller got this from the library or the service, and not from a function or a signal of its own. */
export function isOfStorage(error: unknown): boolean {
  const { name, code, statusCode } = factsOf(error);
  return typeof statusCode === "number" || name === "RestError" || (isLabel(code) && name !== "AbortError");
}

/** Names and codes are single words. Whatever else a caller has put there is not repeated. */
function isLabel(value: unknown): value is string {
  return typeof value === "string" && /^[\w.:-]{1,80}$/.test(value);
}

function factsOf(error: unknown): { name?: unknown; code?: unknown; statusCode?: unknown } {
  return typeof error === "object" && error !== null ? error : {};
}
