import { StorageFault } from "./storage-fault.js";

/** A lease id in one spelling: the service accepts a GUID with or without dashes, in braces or parentheses. */
export function normalizeLeaseId(text: string): string {
  const digits = /^[{(]?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})[)}]?$/i.exec(text);
  if (!digits) throw new StorageFault("InvalidHeaderValue");
  return digits.slice(1).join("-").toLowerCase();
}
