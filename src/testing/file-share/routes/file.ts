import { entryHeaders, leaseHeaders, smbPropertiesOf } from "../entry-headers.js";
import { neverLeased, passLease } from "../lease-machine.js";
import { metadataHeaders, metadataOf } from "../metadata.js";
import type { Operation, RouteContext } from "../operation.js";
import { leaseIdOf, numberIn, requiredHeader } from "../request.js";
import type { FileRequest } from "../request.js";
import { checkLeasable, checkLocks } from "../smb-opens.js";
import { SparseContent } from "../sparse-content.js";
import { StorageFault } from "../storage-fault.js";
import { attach, detach, fileAt, newFile } from "../tree.js";
import type { FileEntry } from "../tree.js";
import { changeFile, checkChange, checkNotReadOnly, fileToRead, permissionsToPut, placeFor } from "./file-access.js";
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
    const smbProperties = smbPropertiesOf(request, context.state.clock.now(), "file");

    const file = putFile(context, (created) => {
      created.content = new SparseContent(size);
      created.content.write(0, request.body);
      created.metadata = metadata;
      created.httpHeaders = httpHeadersOf(request);
      created.copyHeaders = new Map();
      Object.assign(created, { attributes: "Archive", ...smbProperties });
    });
    return { status: 201, headers: { ...entryHeaders(file), "x-ms-request-server-encrypted": "true" } };
  },
};

/** Creates a file, or replaces the content of an existing one; its lease stays. */
export function putFile(context: RouteContext, fill: (file: FileEntry) => void): FileEntry {
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
  checkNotReadOnly(file);
  checkLocks(file, 0, Infinity);
  state.touch(file);
  file.createdAt = file.writtenAt = file.changedAt = file.lastModified;
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

export function fileHeaders(file: FileEntry, { state }: RouteContext): Record<string, string | undefined> {
  return {
    ...entryHeaders(file),
    ...httpHeadersFor(file),
    ...Object.fromEntries(file.copyHeaders),
    ...metadataHeaders(file.metadata),
    ...leaseHeaders(file.lease, state.clock.now()),
    "x-ms-type": "File",
    "x-ms-server-encrypted": "true",
  };
}

/** Sets HTTP headers, SMB properties and the size: a client that only resizes must send the headers again, too. */
export const setFileProperties: Operation = changeFile(200, ["write"], (file, { request, state }) => {
  const smbProperties = smbPropertiesOf(request, state.clock.now(), "file");
  const length = request.headers["x-ms-content-length"];
  if (length !== undefined) {
    const size = sizeIn(length);
    checkNotReadOnly(file);
    if (size < file.content.size) checkLocks(file, size, Infinity);
    file.content.resize(size);
  }
  file.httpHeaders = httpHeadersOf(request);
  Object.assign(file, smbProperties);
  return {};
});

export const setFileMetadata: Operation = changeFile(200, [], (file, { request }) => {
  file.metadata = metadataOf(request);
  return {};
});

export const deleteFile: Operation = {
  level: "object",
  permissions: "d",
  run: (context) => {
    const file = fileAt(placeFor(context));
    checkChange(file, leaseIdOf(context.request), ["delete"], context);
    if (/\bReadOnly\b/i.test(file.attributes)) throw new StorageFault("CannotDeleteFileOrDirectory");
    // A file that an SMB client has open, with a share mode that allows deletion, stays until it is closed.
    if (file.opens.size > 0) file.deletePending = true;
    else detach(file);
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

export function httpHeadersFor(file: FileEntry): Record<string, string> {
  return { "content-type": "application/octet-stream", ...Object.fromEntries(file.httpHeaders) };
}
