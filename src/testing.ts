export { type Azurite, startAzurite, type StartAzuriteOptions } from "./testing/azurite.js";
export { AzuriteStartError, type AzuriteStartFailure } from "./testing/azurite-error.js";
export { emulatorAccount, emulatorConnectionString, replaceEndpoints, type StorageEndpoints } from "./testing/connection-string.js";
export { allOf, isBatch, isLease, isRead, isWrite } from "./testing/fault-rule.js";
export type { FaultProxy, WaitForRequestOptions } from "./testing/fault-proxy.js";
export { type FaultProxyOptions, startFaultProxy } from "./testing/fault-proxy-server.js";
export type {
  AnswerFaultRuleOptions,
  FaultAction,
  FaultAnswer,
  FaultAnswerHead,
  FaultPredicate,
  FaultRequest,
  FaultRule,
  FaultRuleOptions,
  FaultStage,
} from "./testing/fault-rule.js";
export {
  answerWith,
  type AnswerWithOptions,
  cutBody,
  delay,
  dropAnswer,
  hang,
  refuse,
  rewriteAnswer,
  type StagedFaultRuleOptions,
} from "./testing/fault-rules.js";
export type { LoggedRequest, RequestOutcome } from "./testing/request-record.js";
export { type FileShareServer, startFileShareServer, type StartFileShareServerOptions } from "./testing/file-share/file-share-server.js";
export type { FileShareClock } from "./testing/file-share/server-clock.js";
export type { SmbClient, SmbHandle, SmbOpenOptions } from "./testing/file-share/smb-client.js";
export type { SmbAccess } from "./testing/file-share/tree.js";
