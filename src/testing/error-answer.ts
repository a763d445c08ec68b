import { randomUUID } from "node:crypto";

import type { FaultAction, FaultAnswer, FaultRequest } from "./fault-rule.js";

type ErrorFacts = Pick<Extract<FaultAction, { kind: "answer" }>, "status" | "errorCode" | "message" | "headers">;

/** The answer that Azure Storage would give for this error: OData JSON to table clients, XML to all others. */
export function errorAnswer(request: FaultRequest, { status, errorCode, message, headers }: ErrorFacts): FaultAnswer {
  const [contentType, body] = isTableRequest(request)
    ? ["application/json;odata=minimalmetadata;streaming=true;charset=utf-8", odataError(errorCode, message)]
    : ["application/xml", xmlError(errorCode, message)];
  return {
    status,
    headers: {
      "content-type": contentType,
      "x-ms-error-code": errorCode,
      "x-ms-request-id": randomUUID(),
      "x-ms-version": request.headers["x-ms-version"],
      "x-ms-client-request-id": request.headers["x-ms-client-request-id"],
      date: new Date().toUTCString(),
      ...headers,
    },
    body: Buffer.from(body),
  };
}

function isTableRequest({ headers }: FaultRequest): boolean {
  // A batch asks for no JSON itself, its parts do; but all table requests name the OData version.
  return headers["dataserviceversion"] !== undefined || (headers["accept"]?.includes("json") ?? false);
}

function odataError(code: string, message: string): string {
  return JSON.stringify({ "odata.error": { code, message: { lang: "en-US", value: message } } });
}

function xmlError(code: string, message: string): string {
  return `<?xml version="1.0" encoding="utf-8"?><Error><Code>${escapeXml(code)}</Code><Message>${escapeXml(message)}</Message></Error>`;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
