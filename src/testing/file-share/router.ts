import { authorize } from "./authorize.js";
import { checkGaps, unknownOperation } from "./gaps.js";
import type { Operation, RouteContext } from "./operation.js";
import type { FileRequest } from "./request.js";
import type { FileResponse } from "./response.js";
import { createDirectory, deleteDirectory, getDirectoryMetadata, getDirectoryProperties, listDirectory, setDirectoryMetadata } from "./routes/directory.js";
import { createFile, deleteFile, getFileMetadata, getFileProperties, leaseFile, setFileMetadata, setFileProperties } from "./routes/file.js";
import { getFile, listRanges, putRange } from "./routes/file-content.js";
import { abortCopy, copyFile, renameFile } from "./routes/file-rename.js";
import { listShares } from "./routes/service.js";
import {
  createShare,
  deleteShare,
  getShareAccessPolicy,
  getShareMetadata,
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
  ["GET share metadata", getShareMetadata],
  ["HEAD share metadata", getShareMetadata],
  ["PUT share metadata", setShareMetadata],
  ["PUT share properties", setShareProperties],
  ["PUT share acl", setShareAccessPolicy],
  ["GET share acl", getShareAccessPolicy],
  ["PUT share lease", leaseShare],

  ["PUT directory", createDirectory],
  ["GET directory", getDirectoryProperties],
  ["HEAD directory", getDirectoryProperties],
  ["DELETE directory", deleteDirectory],
  ["GET directory metadata", getDirectoryMetadata],
  ["HEAD directory metadata", getDirectoryMetadata],
  ["PUT directory metadata", setDirectoryMetadata],
  ["GET directory list", listDirectory],

  ["PUT file", createFile],
  ["GET file", getFile],
  ["HEAD file", getFileProperties],
  ["DELETE file", deleteFile],
  ["PUT file range", putRange],
  ["GET file rangelist", listRanges],
  ["PUT file properties", setFileProperties],
  ["GET file metadata", getFileMetadata],
  ["HEAD file metadata", getFileMetadata],
  ["PUT file metadata", setFileMetadata],
  ["PUT file lease", leaseFile],
  ["PUT file rename", renameFile],
  ["PUT file from", copyFile],
  ["PUT file copy", abortCopy],
]);

/** Finds the operation, authorizes the request, and runs it. */
export function route(context: RouteContext): FileResponse {
  const { request, account, state } = context;
  const name = operationName(request);
  const operation = operations.get(name);
  if (!operation) throw unknownOperation(name);
  checkGaps(request);
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
  // A request for a whole share must not carry the path of a file: a deletion of the file would delete the share.
  const isForWhole = (kind === "share" && target.path.length > 0) || (restype === "service" && target.share !== undefined);
  if (isForWhole) throw new StorageFault("InvalidQueryParameterValue");
  if (kind === "file" && target.path.length === 0) throw new StorageFault("InvalidUri");
  const comp = query.get("comp") ?? (method === "PUT" && kind === "file" && headers["x-ms-copy-source"] !== undefined ? "from" : undefined);
  return comp === undefined ? `${method} ${kind}` : `${method} ${kind} ${comp}`;
}
