import type { ContainerClient } from "@azure/storage-blob";

import { freshName } from "../support/clients.js";
import type { BlobRow, BlobSubject } from "./blob.rows.js";
import type { Version } from "./row.js";

/** A fresh blob of the row's kind, and a source to copy from where one is wanted. */
export async function blobSubject(container: ContainerClient, { kind = "block", operation }: BlobRow): Promise<BlobSubject> {
  const name = freshName();
  const subject: BlobSubject = {
    block: container.getBlockBlobClient(name),
    page: container.getPageBlobClient(name),
    append: container.getAppendBlobClient(name),
    source: container.getBlockBlobClient(`${name}-source`),
  };
  if (operation.includes("Copy")) await subject.source.upload("source", 6);
  // Aborting wants a blob that was copied.
  if (operation === "Abort Copy Blob") await (await subject.block.beginCopyFromURL(subject.source.url)).pollUntilDone();
  else if (kind === "block") await subject.block.upload("old", 3);
  else if (kind === "page") await subject.page.create(512);
  else await subject.append.create();
  return subject;
}

export async function versionOf(subject: BlobSubject, ofSource = false): Promise<Version> {
  const { etag = "", lastModified = new Date(0) } = await (ofSource ? subject.source : subject.block).getProperties();
  return { etag, lastModified };
}
