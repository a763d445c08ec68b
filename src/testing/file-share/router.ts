import { authorize } from "./authorize.js";
import type { Operation, RouteContext } from "./operation.js";
import type { FileRequest } from "./request.js";
import type { FileResponse } from "./response.js";
import { createDirectory, deleteDirectory, getDirectoryProperties, listDirectory, setDirectoryMetadata } from "./routes/directory.js";
import { createFile, deleteFile, getFileProperties, leaseFile, setFileMetadata, setFileProperties } from "./routes/file.js";
import { getFile, listRanges, putRange } from "./routes/file-content.js";
import { copyFile, renameFile } from "./routes/file-rename.js";
import { listShares } from "./routes/service.js";
import {
  createShare,
  deleteShare,
  getShareAccessPolicy,
  getShareProperties,
  leaseShare,
  setShareAccessPolicy,
  setShareMetadata,
  setShareProperties,
} from "./routes/share.js";
import { StorageFault } from "./storage-fault.js";

/** By method, kind of resource and `comp`. */
const operations: ReadonlyMap<string, Operation> = new Map([
  ["GET service list", listShares],

  ["PUT share", createShare],
  ["GET share", getShareProperties],
  ["HEAD share", getShareProperties],
  ["DELETE share", deleteShare],
  ["PUT share metadata", setShareMetadata],
  ["PUT share properties", setShareProperties],
  ["PUT share acl", setShareAccessPolicy],
  ["GET share acl", getShareAccessPolicy],
  ["PUT share lease", leaseShare],

  ["PUT directory", createDirectory],
  ["GET directory", getDirectoryProperties],
  ["HEAD directory", getDirectoryProperties],
  ["DELETE directory", deleteDirectory],
  ["PUT directory metadata", setDirectoryMetadata],
  ["GET directory list", listDirectory],

  ["PUT file", createFile],
  ["GET file", getFile],
  ["HEAD file", getFileProperties],
  ["DELETE file", deleteFile],
  ["PUT file range", putRange],
  ["GET file rangelist", listRanges],
  ["PUT file properties", setFileProperties],
  ["PUT file metadata", setFileMetadata],
  ["PUT file lease", leaseFile],
  ["PUT file rename", renameFile],
  ["PUT file copy", copyFile],
]);

/** Finds the operation, authorizes the request, and runs it. */
export function route(context: RouteContext): FileResponse {
  const { request, account, state } = context;
  if (request.query.has("sharesnapshot") || request.query.has("prevsharesnapshot")) throw new StorageFault("NotImplemented");
  const operation = operations.get(operationName(request));
  if (!operation) throw new StorageFault("NotImplemented");
  const { level } = operation;
  // The signature of the request is verified before anything is read for it.
  const permissions = typeof operation.permissions === "string" ? operation.permissions : "cw";
  authorize(request, account, { level, permissions }, state.clock.now());
  if (typeof operation.permissions !== "string") {
    authorize(request, account, { level, permissions: operation.permissions(context) }, state.clock.now());
  }
  return operation.run(context);
}

function operationName({ method, query, headers, target }: FileRequest): string {
  const restype = query.get("restype");
  const kind = target.share === undefined ? "service" : (restype ?? "file");
  if (kind === "file" && target.path.length === 0) throw new StorageFault("InvalidUri");
  const comp = query.get("comp") ?? (method === "PUT" && kind === "file" && headers["x-ms-copy-source"] !== undefined ? "copy" : undefined);
  return comp === undefined ? `${method} ${kind}` : `${method} ${kind} ${comp}`;
}
