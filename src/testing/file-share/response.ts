import { randomUUID } from "node:crypto";
import type { FileRequest } from "./request.js";
import type { StorageFault } from "./storage-fault.js";
import { element, xmlDocument } from "./xml.js";

export interface FileResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  readonly body?: Buffer | undefined;
}

/** A response as it is sent: with the common headers, and without those that are undefined. */
export interface WireResponse {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

export function wireResponse(method: string, sent: FileRequest["headers"], response: FileResponse, now: number): WireResponse {
  const { status, headers = {}, body = Buffer.alloc(0) } = response;
  const out: Record<string, string> = {
    "server": "file-share-test-server",
    "x-ms-request-id": randomUUID(),
    "x-ms-version": sent["x-ms-version"] ?? "2021-10-04",
    "date": httpDate(now),
  };
  const clientRequestId = sent["x-ms-client-request-id"];
  if (clientRequestId !== undefined) out["x-ms-client-request-id"] = clientRequestId;
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) out[name] = value;
  // The length in a response to HEAD is that of the file.
  if (method !== "HEAD") out["content-length"] = String(body.length);
  return { status, headers: out, body: method === "HEAD" ? Buffer.alloc(0) : body };
}

export function faultResponse(fault: StorageFault): FileResponse {
  const body = xmlDocument(element("Error", [element("Code", fault.code), element("Message", fault.message)]));
  return {
    status: fault.status,
    headers: {
      "content-type": "application/xml",
      "x-ms-error-code": fault.code,
      "www-authenticate": fault.status === 401 ? "SharedKey" : undefined,
      ...fault.headers,
    },
    body,
  };
}

export function httpDate(ms: number): string {
  return new Date(ms).toUTCString();
}
