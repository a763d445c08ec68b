import { attributesIn, entryHeaders, leaseHeaders, smbPropertiesOf, stampHeaders, withAttribute } from "../entry-headers.js";
import { fileTimeOf } from "../file-time.js";
import { neverLeased, passLease } from "../lease-machine.js";
import { metadataHeaders, metadataOf } from "../metadata.js";
import type { Operation, RouteContext } from "../operation.js";
import { leaseIdOf, numberIn, requiredHeader } from "../request.js";
import type { FileRequest } from "../request.js";
import { checkClosed, checkLeasable, checkLocks } from "../smb-opens.js";
import { SparseContent } from "../sparse-content.js";
import { StorageFault } from "../storage-fault.js";
import { attach, detach, fileAt, newFile } from "../tree.js";
import type { FileEntry } from "../tree.js";
import { changeFile, checkChange, checkMd5, checkNotReadOnly, fileToRead, md5Of, permissionsToPut, placeFor } from "./file-access.js";
import { parseLeaseRequest, runLease } from "./lease-request.js";

const maxSize = 4 * 1024 ** 4;
export const maxRange: number = 4 * 1024 ** 2;

export const createFile: Operation = {
  level: "object",
  permissions: permissionsToPut,
  run: (context) => {
    const { request } = context;
    if (requiredHeader(request, "x-ms-type").toLowerCase() !== "file") throw new StorageFault("InvalidHeaderValue");
    const size = sizeIn(requiredHeader(request, "x-ms-content-length"));
    if (request.body.length > maxRange) throw new StorageFault("RequestBodyTooLarge");
    if (request.body.length > size) throw new StorageFault("InvalidHeaderValue");
    const metadata = metadataOf(request);
    checkMd5(request);
    const smbProperties = withAttribute(smbPropertiesOf(request, context.state.clock.now()), "Archive");

    const file = putFile(context, (created) => {
      created.content = new SparseContent(size);
      created.content.write(0, request.body);
      created.metadata = metadata;
      created.httpHeaders = new Map([["content-type", "application/octet-stream"], ...plainHeadersOf(request), ...httpHeadersOf(request)]);
      created.copyHeaders = new Map();
      Object.assign(created, smbProperties);
    });
    const md5 = request.body.length > 0 ? md5Of(request.body) : undefined;
    return { status: 201, headers: { ...entryHeaders(file), "x-ms-request-server-encrypted": "true", "content-md5": md5 } };
  },
};

/** Creates a file, or replaces the content of an existing one; its lease stays. */
export function putFile(context: RouteContext, fill: (file: FileEntry) => void, ignoreReadOnly = false): FileEntry {
  const { request, state } = context;
  const place = placeFor(context);
  if (!place.entry) {
    passLease("file", neverLeased, leaseIdOf(request), "write", state.clock.now());
    const created = newFile(place.name, place.directory, { ...state.stamp(), metadata: new Map() }, 0);
    fill(created);
    attach(created);
    return created;
  }
  const file = fileAt(place);
  const lease = checkChange(file, leaseIdOf(request), ["write", "delete"], context);
  if (!ignoreReadOnly) checkNotReadOnly(file);
  checkLocks(file, 0, Infinity);
  state.touch(file);
  file.createdAt = file.writtenAt = file.changedAt = fileTimeOf(file.lastModified);
  file.lease = lease;
  fill(file);
  return file;
}

export const getFileProperties: Operation = {
  level: "object",
  permissions: "r",
  run: (context) => {
    const file = fileToRead(context, []);
    return { status: 200, headers: { ...fileHeaders(file, context), "content-length": String(file.content.size) } };
  },
};

export const getFileMetadata: Operation = {
  level: "object",
  permissions: "r",
  run: (context) => {
    const file = fileToRead(context, []);
    return { status: 200, headers: { ...stampHeaders(file), ...metadataHeaders(file.metadata) } };
  },
};

export function fileHeaders(file: FileEntry, { request, state }: RouteContext): Record<string, string | undefined> {
  return {
    ...entryHeaders(file),
    ...Object.fromEntries(file.httpHeaders),
    ...sasHeadersOf(request),
    ...Object.fromEntries(file.copyHeaders),
    ...metadataHeaders(file.metadata),
    ...leaseHeaders(file.lease, state.clock.now()),
    "x-ms-type": "File",
    "x-ms-server-encrypted": "true",
  };
}

/** Sets HTTP headers, SMB properties and the size. HTTP headers that are missing are cleared, unless only the size is set. */
export const setFileProperties: Operation = changeFile(200, ["write"], (file, { request, state }) => {
  const now = state.clock.now();
  const smbProperties = smbPropertiesOf(request, now);
  const httpHeaders = httpHeadersOf(request);
  const length = request.headers["x-ms-content-length"];
  const size = length === undefined ? undefined : sizeIn(length);
  // Only attributes can be set on a read-only file: otherwise it would stay read-only forever.
  if (size !== undefined || attributesIn(request) === undefined) checkNotReadOnly(file);
  if (size !== undefined) {
    if (size < file.content.size) checkLocks(file, size, Infinity);
    if (size !== file.content.size) file.writtenAt = fileTimeOf(now);
    file.content.resize(size);
  }
  if (size === undefined || httpHeaders.size > 0) file.httpHeaders = httpHeaders;
  Object.assign(file, smbProperties);
  return {};
});

export const setFileMetadata: Operation = changeFile(200, ["write"], (file, { request }) => {
  checkNotReadOnly(file);
  file.metadata = metadataOf(request);
  return {};
});

export const deleteFile: Operation = {
  level: "object",
  permissions: "d",
  run: (context) => {
    const file = fileAt(placeFor(context));
    checkChange(file, leaseIdOf(context.request), [], context);
    checkClosed(file);
    if (file.attributes.has("ReadOnly")) throw new StorageFault("CannotDeleteFileOrDirectory");
    detach(file);
    return { status: 202 };
  },
};

export const leaseFile: Operation = {
  level: "object",
  permissions: "w",
  run: (context) => {
    const lease = parseLeaseRequest(context.request);
    const file = fileAt(placeFor(context));
    if (lease.action === "acquire") checkLeasable(file);
    return runLease("file", file, lease, context.state.clock.now());
  },
};

function sizeIn(value: string): number {
  const size = numberIn(value);
  if (size < 0 || size > maxSize) throw new StorageFault("OutOfRangeInput");
  return size;
}

const names = ["content-type", "content-encoding", "content-language", "content-disposition", "cache-control", "content-md5"] as const;

/** The HTTP headers that a request sets. All others are cleared, as documented for all operations that set some. */
export function httpHeadersOf({ headers }: FileRequest): Map<string, string> {
  const set = new Map<string, string>();
  for (const name of names) {
    const value = headers[`x-ms-${name}`];
    if (value !== undefined && value !== "") set.set(name, value);
  }
  return set;
}

/** Create File takes some of them without the prefix, too. */
function plainHeadersOf({ headers }: FileRequest): [string, string][] {
  return (["content-type", "content-encoding", "content-language", "cache-control"] as const).flatMap((name): [string, string][] => {
    const value = headers[name];
    return value === undefined || value === "" ? [] : [[name, value]];
  });
}

const sasHeaders = {
  rscc: "cache-control",
  rscd: "content-disposition",
  rsce: "content-encoding",
  rscl: "content-language",
  rsct: "content-type",
} as const;

/** The headers of the response that a SAS replaces. */
function sasHeadersOf({ query }: FileRequest): Record<string, string> {
  const replaced: Record<string, string> = {};
  if (!query.has("sig")) return replaced;
  for (const [parameter, header] of Object.entries(sasHeaders)) {
    const value = query.get(parameter);
    if (value !== undefined) replaced[header] = value;
  }
  return replaced;
}
