import { randomUUID } from "node:crypto";

import {
  AccountSASPermissions,
  generateAccountSASQueryParameters,
  type ShareClient,
  ShareServiceClient,
  StorageSharedKeyCredential,
} from "@azure/storage-file-share";

import type { FileShareServer } from "../../src/testing.js";

/** A client of the server, or of a proxy in front of it, that does not retry: a test wants the first answer. */
export function serviceOf(server: FileShareServer, url: string = server.url): ShareServiceClient {
  const credential = new StorageSharedKeyCredential(server.accountName, server.accountKey);
  return new ShareServiceClient(url, credential, { retryOptions: { maxTries: 1 } });
}

export async function freshShare(server: FileShareServer): Promise<ShareClient> {
  const share = serviceOf(server).getShareClient(`s${randomUUID()}`);
  await share.create();
  return share;
}

/** A token for the whole account. */
export function accountSas(server: FileShareServer, permissions: string, resourceTypes = "sco", expiresInMs = 3_600_000): string {
  const credential = new StorageSharedKeyCredential(server.accountName, server.accountKey);
  const values = {
    permissions: AccountSASPermissions.parse(permissions),
    resourceTypes,
    services: "f",
    expiresOn: new Date(server.clock.now() + expiresInMs),
  };
  return generateAccountSASQueryParameters(values, credential).toString();
}

/** `409 SharingViolation` for a call that is refused, or the status of one that is not. */
export async function answerOf(call: Promise<{ _response: { status: number } }>): Promise<string> {
  try {
    return String((await call)._response.status);
  } catch (error) {
    const { statusCode, details } = error as { statusCode?: number; details?: { errorCode?: string } };
    if (statusCode === undefined) throw error;
    return `${statusCode} ${details?.errorCode ?? ""}`;
  }
}
