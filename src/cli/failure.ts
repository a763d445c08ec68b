import { codeOf, isNotFound, isParentNotFound, statusOf } from "../core/storage-errors.js";
import { isConcurrencyError } from "../errors.js";
import { CommandError, exitCodes } from "./exit-codes.js";
import type { ExitCode } from "./exit-codes.js";

/** The message and the exit code of a command that failed. */
export function describeFailure(error: unknown): { exitCode: ExitCode; message: string } {
  if (error instanceof CommandError) return { exitCode: error.exitCode, message: error.message };
  const cause = isConcurrencyError(error) ? (error.cause ?? error) : error;
  if (signInErrors.has((cause as Error | undefined)?.name ?? "")) return { exitCode: exitCodes.failed, message: signInFailed(cause as Error) };
  if (statusOf(cause) === undefined) {
    const message = error instanceof Error ? error.message : String(error);
    return { exitCode: error instanceof RangeError || error instanceof TypeError ? exitCodes.usage : exitCodes.failed, message };
  }
  // Only the first line of the service's message: ids and times follow on further lines.
  const firstLine = (error as Error).message.split("\n", 1)[0] ?? "";
  const code = codeOf(cause) ?? statusOf(cause);
  if (code === "AuthorizationPermissionMismatch") return { exitCode: exitCodes.failed, message: `${code}: ${firstLine} ${needsRole}` };
  return { exitCode: isNotFound(cause) || isParentNotFound(cause) ? exitCodes.notFound : exitCodes.failed, message: `${code}: ${firstLine}` };
}

const needsRole = "With Entra ID, data needs a role such as Storage Blob Data Contributor (Queue, Table, File SMB Share): Owner and Contributor are not sufficient.";

/** Errors of @azure/identity, which may be installed in another version than the one that is known here. */
const signInErrors: ReadonlySet<string> = new Set(["CredentialUnavailableError", "AuthenticationError", "AggregateAuthenticationError", "AuthenticationRequiredError"]);

/** What the credentials say is long: a paragraph for each that was tried. The last one that was not merely unavailable is the reason. */
function signInFailed(error: Error): string {
  const { errors = [error] } = error as Error & { readonly errors?: readonly Error[] };
  const reason = [...errors].reverse().find(({ name }) => name !== "CredentialUnavailableError");
  const detail = reason?.message.split("\n").find((line) => line.trim() !== "" && !line.startsWith("ChainedTokenCredential"));
  return `Could not sign in with Entra ID: sign in with "az login", use a managed identity, or set the AZURE_* variables of @azure/identity.${detail === undefined ? "" : ` ${detail.trim()}`}`;
}
