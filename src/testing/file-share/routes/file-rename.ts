import { randomUUID } from "node:crypto";
import { authorizeSource } from "../authorize.js";
import { entryHeaders, isWord, smbPropertiesOf, stampHeaders, withAttribute } from "../entry-headers.js";
import { neverLeased, passLease } from "../lease-machine.js";
import { metadataOf } from "../metadata.js";
import type { Operation, RouteContext } from "../operation.js";
import { leaseIdOf, requiredHeader } from "../request.js";
import type { FileRequest } from "../request.js";
import { httpDate } from "../response.js";
import { awaitFlush, checkSharing } from "../smb-opens.js";
import { StorageFault } from "../storage-fault.js";
import { attach, detach, fileAt, findPlace } from "../tree.js";
import type { FileEntry, Place } from "../tree.js";
import { putFile } from "./file.js";
import { checkChange, checkNotReadOnly, permissionsToPut, placeFor } from "./file-access.js";

/** The file keeps its content, properties and lease under another path. A file that it replaces is deleted with its lease. */
export const renameFile: Operation = {
  level: "object",
  permissions: "w",
  run: (context) => {
    const { request, state, account } = context;
    const now = state.clock.now();
    const source = authorizeSource(request, requiredHeader(request, "x-ms-file-rename-source"), account, "rwd", now);
    if (source.share !== request.target.share) throw new StorageFault("InvalidHeaderValue");
    const metadata = metadataOf(request);
    const smbProperties = smbPropertiesOf(request, now);
    const destination = placeFor(context);
    const file = fileAt(findPlace(destination.share, source.path));
    const lease = checkChange(file, leaseIdOf(request, "x-ms-source-lease-id"), ["delete"], context);
    checkDestination(destination, file, context);

    if (destination.entry) detach(destination.entry);
    detach(file);
    file.parent = destination.directory;
    file.name = destination.name;
    attach(file);
    const contentType = request.headers["x-ms-content-type"];
    if (contentType !== undefined) file.httpHeaders = new Map(file.httpHeaders).set("content-type", contentType);
    if (metadata.size > 0) file.metadata = metadata;
    Object.assign(file, smbProperties);
    file.lease = lease;
    state.touch(file);
    return { status: 200, headers: { ...entryHeaders(file), "x-ms-request-server-encrypted": "true" } };
  },
};

function checkDestination(destination: Place, source: FileEntry, context: RouteContext): void {
  const { entry } = destination;
  const { request, state } = context;
  const leaseId = leaseIdOf(request, "x-ms-destination-lease-id");
  const mayReplace = request.headers["x-ms-file-rename-replace-if-exists"] === "true";
  const ignoreReadOnly = request.headers["x-ms-file-rename-ignore-readonly"] === "true";
  if (ignoreReadOnly && !mayReplace) throw new StorageFault("InvalidHeaderValue");
  if (!entry) {
    passLease("file", neverLeased, leaseId, "write", state.clock.now());
    return;
  }
  // Another spelling of its own name.
  if (entry === source) return;
  if (!mayReplace) throw new StorageFault("ResourceAlreadyExists");
  const replaced = fileAt(destination);
  checkChange(replaced, leaseId, ["write", "delete"], context);
  if (!ignoreReadOnly) checkNotReadOnly(replaced);
}

/** Copies a file of this server. It is complete before the response is sent, so there is no copy to wait for or to abort. */
export const copyFile: Operation = {
  level: "object",
  permissions: permissionsToPut,
  run: (context) => {
    const { request } = context;
    const url = requiredHeader(request, "x-ms-copy-source");
    const source = findSource(context, url);
    const content = source.content.copy();
    const given = metadataOf(request);
    const id = randomUUID();
    const smbProperties = copiedProperties(request, source, context.state.clock.now());
    const ignoreReadOnly = isWord(request.headers["x-ms-file-copy-ignore-readonly"], "true");
    const fill = (target: FileEntry): void => {
      target.content = content;
      target.metadata = given.size > 0 ? given : source.metadata;
      target.httpHeaders = source.httpHeaders;
      target.copyHeaders = new Map([
        ["x-ms-copy-id", id],
        ["x-ms-copy-status", "success"],
        ["x-ms-copy-source", url.split("?")[0] ?? ""],
        ["x-ms-copy-progress", `${content.size}/${content.size}`],
        ["x-ms-copy-completion-time", httpDate(context.state.clock.now())],
      ]);
      Object.assign(target, smbProperties);
    };
    const file = putFile(context, fill, ignoreReadOnly);
    return { status: 202, headers: { ...stampHeaders(file), "x-ms-copy-id": id, "x-ms-copy-status": "success" } };
  },
};

/** The attributes and times of a copy: new ones, unless the request says otherwise. */
function copiedProperties(request: FileRequest, source: FileEntry, now: number): Partial<FileEntry> {
  const given = smbPropertiesOf(request, now, source);
  const attributes = given.attributes ?? new Set(["Archive"] as const);
  const archive = isWord(request.headers["x-ms-file-copy-set-archive"], "true");
  return { ...given, ...(archive ? withAttribute({ attributes }, "Archive") : { attributes }) };
}

/** A copy has always ended by now: there is none to abort. */
export const abortCopy: Operation = {
  level: "object",
  permissions: "w",
  run: (context) => {
    const { request, state } = context;
    if (!isWord(requiredHeader(request, "x-ms-copy-action"), "abort")) throw new StorageFault("InvalidHeaderValue");
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(request.query.get("copyid") ?? "")) throw new StorageFault("InvalidQueryParameterValue");
    passLease("file", fileAt(placeFor(context)).lease, leaseIdOf(request), "write", state.clock.now());
    throw new StorageFault("NoPendingCopyOperation");
  },
};

function findSource({ request, state, account }: RouteContext, url: string): FileEntry {
  const { share, path } = authorizeSource(request, url, account, "r", state.clock.now());
  let source: FileEntry;
  try {
    source = fileAt(findPlace(state.share(share ?? ""), path));
  } catch (error) {
    if (error instanceof StorageFault && error.status === 404) throw new StorageFault("CannotVerifyCopySource");
    throw error;
  }
  awaitFlush(source);
  checkSharing(source, ["read"]);
  return source;
}
