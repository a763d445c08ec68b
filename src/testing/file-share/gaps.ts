import type { FileRequest } from "./request.js";
import { StorageFault } from "./storage-fault.js";

/** What the service has and this server does not. Every request that needs one of these is answered 501 with its name. */

/** By method, kind of resource and `comp`, as in the router. */
const operations: Readonly<Record<string, string>> = {
  "GET service properties": "Get File Service Properties",
  "PUT service properties": "Set File Service Properties",
  "POST service userdelegationkey": "user delegation keys",
  "PUT share snapshot": "share snapshots",
  "PUT share undelete": "Restore Share: there is no soft delete",
  "GET share stats": "Get Share Stats",
  "PUT share filepermission": "Create Permission: there are no security descriptors",
  "GET share filepermission": "Get Permission: there are no security descriptors",
  "PUT directory rename": "Rename Directory",
  "PUT directory properties": "Set Directory Properties",
  "OPTIONS": "Preflight File Request: there is no CORS",
  "GET file listhandles": "List Handles",
  "PUT file forceclosehandles": "Force Close Handles",
  "PUT symboliclink": "Create Symbolic Link: there are no NFS shares",
  "GET symboliclink": "Get Symbolic Link: there are no NFS shares",
  "PUT hardlink": "Create Hard Link: there are no NFS shares",
};

const sasParameters: readonly (readonly [name: string, feature: string])[] = [
  ["si", "stored access policies (si)"],
  ["skoid", "user delegation SAS (skoid)"],
  ["sip", "SAS with an IP range (sip)"],
];

/** The only permission of all files. */
export const permissionKey = "0*0";
const nfs = "there are no NFS shares";
const performance = "shares have no provisioned performance";
const descriptors = "there are no security descriptors";

/** Headers, and the values with which a request does not need what is missing. */
const headers: readonly (readonly [name: string, reason: string, harmless?: readonly string[]])[] = [
  ["x-ms-structured-body", "content has no CRC64"],
  ["x-ms-file-permission", descriptors, ["inherit", "preserve"]],
  ["x-ms-file-permission-key", `${descriptors}; the key of every file is ${permissionKey}`, [permissionKey]],
  ["x-ms-file-permission-copy-mode", descriptors],
  ["x-ms-file-permission-format", descriptors],
  ["x-ms-mode", nfs],
  ["x-ms-owner", nfs],
  ["x-ms-group", nfs],
  ["x-ms-enabled-protocols", nfs, ["smb"]],
  ["x-ms-root-squash", nfs],
  ["x-ms-share-provisioned-iops", performance],
  ["x-ms-share-provisioned-bandwidth-mibps", performance],
  ["x-ms-share-paid-bursting-enabled", performance],
  ["x-ms-share-paid-bursting-max-iops", performance],
  ["x-ms-share-paid-bursting-max-bandwidth-mibps", performance],
  ["x-ms-enable-smb-directory-lease", "there are no directory leases"],
];

export function notImplemented(feature: string): StorageFault {
  return new StorageFault("NotImplemented", { message: `The file-share test server does not implement: ${feature}.` });
}

/** The rejection of an operation that the router does not know. */
export function unknownOperation(name: string): StorageFault {
  return notImplemented(operations[name] ?? operations[name.split(" ")[0] ?? ""] ?? name);
}

/** Rejects a SAS that needs something that the server does not have. */
export function checkSasGaps(query: ReadonlyMap<string, string>): void {
  for (const [name, feature] of sasParameters) if (query.has(name)) throw notImplemented(feature);
}

/** Rejects a request that needs something that the server does not have. */
export function checkGaps(request: FileRequest): void {
  if (request.query.has("sharesnapshot") || request.query.has("prevsharesnapshot")) throw notImplemented("share snapshots");
  if (request.query.get("comp") === "range" && request.headers["x-ms-copy-source"] !== undefined) throw notImplemented("Put Range from URL");
  for (const [name, reason, harmless = []] of headers) {
    const value = request.headers[name];
    if (value !== undefined && !harmless.includes(value.toLowerCase())) throw notImplemented(`${name}: ${reason}`);
  }
  if (/^sharedkeylite /i.test(request.headers["authorization"] ?? "")) throw notImplemented("Shared Key Lite");
  if (/^bearer /i.test(request.headers["authorization"] ?? "")) throw notImplemented("token credentials");
}
