import { checkOneOf } from "../internal/validate.js";

/** How texts stand in a queue. Azure Functions and older SDKs expect `"base64"`. */
export type QueueEncoding = "text" | "base64";

/** What a queue takes. */
export const maxMessageBytes: number = 64 * 1024;

export function checkEncoding(encoding: QueueEncoding | undefined): QueueEncoding {
  return checkOneOf("encoding", encoding ?? "text", ["text", "base64"]);
}

export function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

export function encodeText(text: string, encoding: QueueEncoding): string {
  if (encoding === "text") return text;
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** @throws if it is no base64, or no UTF-8 in it. */
export function decodeText(text: string, encoding: QueueEncoding): string {
  if (encoding === "text") return text;
  const binary = atob(text);
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)));
}
