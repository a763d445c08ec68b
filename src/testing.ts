export { MemoryInbox } from "./queue/inbox/memory-inbox.js";
export { startAzurite } from "./testing/azurite.js";
export type { Azurite, StartAzuriteOptions } from "./testing/azurite.js";
export { AzuriteStartError } from "./testing/azurite-error.js";
export type { AzuriteStartFailure } from "./testing/azurite-error.js";
export { emulatorAccount, emulatorConnectionString, replaceEndpoints } from "./testing/connection-string.js";
export type { StorageEndpoints } from "./testing/connection-string.js";
export { startFaultProxy } from "./testing/fault-proxy.js";
export type { FaultProxy, FaultProxyOptions, WaitForRequestOptions } from "./testing/fault-proxy.js";
export { allOf, isBatch, isLease, isRead, isWrite } from "./testing/fault-rule.js";
export type {
  ResponseFaultRuleOptions,
  FaultAction,
  FaultResponse,
  FaultResponseHead,
  FaultPredicate,
  FaultRequest,
  FaultRule,
  FaultRuleOptions,
  FaultStage,
} from "./testing/fault-rule.js";
export { respondWith, cutBody, delay, dropResponse, hang, dropRequest, rewriteResponse } from "./testing/fault-rules.js";
export type { RespondWithOptions, StagedFaultRuleOptions } from "./testing/fault-rules.js";
export { startFileShareServer } from "./testing/file-share/file-share-server.js";
export type { FileShareServer, StartFileShareServerOptions } from "./testing/file-share/file-share-server.js";
export type { FileShareClock } from "./testing/file-share/server-clock.js";
export type { SmbClient, SmbHandle, SmbOpenOptions } from "./testing/file-share/smb-client.js";
export type { SmbAccess } from "./testing/file-share/tree.js";
export type { LoggedRequest, RequestOutcome } from "./testing/request-record.js";
export { createStorageFixture, openTestStorage, startTestRun } from "./testing/test-storage.js";
export type { StorageFixture, TestClientClass, TestClientClasses, TestStorage, TestTableClass } from "./testing/test-storage.js";
