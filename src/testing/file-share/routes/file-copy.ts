import { randomUUID } from "node:crypto";

import { httpDate } from "../answer.js";
import { authorizeSource } from "../authorize.js";
import { stampHeaders } from "../entry-headers.js";
import { metadataOf } from "../metadata.js";
import type { Operation, RouteContext } from "../operation.js";
import { requiredHeader } from "../request.js";
import { awaitFlush, checkSharing } from "../smb-opens.js";
import { StorageFault } from "../storage-fault.js";
import { fileAt, type FileEntry, findPlace } from "../tree.js";
import { permissionsToPut } from "./file-access.js";
import { putFile } from "./file.js";

/** Copies a file of this server. It is done before the answer is sent, so there is no copy to wait for or to abort. */
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
    const file = putFile(context, (target) => {
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
    });
    return { status: 202, headers: { ...stampHeaders(file), "x-ms-copy-id": id, "x-ms-copy-status": "success" } };
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
