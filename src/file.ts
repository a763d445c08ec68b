/** What concerns files, for applications that have `@azure/storage-file-share` alone. */
export { FileInUseError, isFileInUseError } from "./errors.js";
export { retryWhileInUse } from "./file/retry-while-in-use.js";
export type { InUseAttempt, RetryWhileInUseOptions } from "./file/retry-while-in-use.js";
