/**
 * Whether a URL names a snapshot of a blob or share, or a version of a blob: it can be read, but not changed. The service ignores the
 * name of the snapshot in some write requests, which then change the blob itself.
 */
export function isSnapshotUrl(url: unknown): boolean {
  return typeof url === "string" && /[?&](snapshot|sharesnapshot|versionid)=/i.test(url);
}
