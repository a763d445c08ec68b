/** Why Azurite could not be started. */
export type AzuriteStartFailure = "AZURITE_NOT_INSTALLED" | "AZURITE_EXITED" | "AZURITE_START_TIMEOUT";

/** Thrown by {@link startAzurite} when Azurite could not be started. */
export class AzuriteStartError extends Error {
  /** The same in all copies of the package, where `instanceof` is not. */
  override readonly name = "AzuriteStartError";

  /** Stable, for programs. */
  readonly code: AzuriteStartFailure;

  /** The last lines that Azurite printed; empty if it never ran. */
  readonly output: string;

  /** Created by {@link startAzurite} only. The message ends with the output, if there is any. */
  constructor(code: AzuriteStartFailure, message: string, details: { output?: string; cause?: unknown } = {}) {
    const output = details.output?.trim() ?? "";
    super(output === "" ? message : `${message}; its last output was:\n${output}`, { cause: details.cause });
    this.code = code;
    this.output = output;
  }
}
