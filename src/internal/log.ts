import { createClientLogger } from "@azure/logger";
import type { AzureLogger } from "@azure/logger";

/**
 * Logs of this library, switched by `AZURE_LOG_LEVEL` or `setLogLevel` as those of the SDKs. Lost races are
 * verbose, errors that a caller gets are warnings. Never a payload, a key or a SAS.
 */
export const logger: AzureLogger = createClientLogger("storage-concurrency");
