import type { ContainerClient } from "@azure/storage-blob";
import { appendExactlyOnce } from "../../../../append/append-exactly-once.js";
import { IdAllocator } from "../../../../ids/id-allocator.js";
import { claimPages } from "../../../../page/page-writer.js";
import { purgeOverflow } from "../../../../queue/overflow/purge-overflow.js";
import { downloadConsistent } from "../../../../read/download-consistent.js";
import { jsonBlob } from "../../../../target/blob-content.js";
import { blobHttpHeaders, blobMetadata } from "../../../../target/blob-properties.js";
import { blobTags } from "../../../../target/blob-tags.js";
import { containerMetadata } from "../../../../target/container-properties.js";
import { createIfNotExists } from "../../../../update/create-if-not-exists.js";
import { deleteIfUnchanged } from "../../../../update/delete-if-unchanged.js";
import { leasedUpdate } from "../../../../update/leased-update.js";
import { DELETE } from "../../../../update/mutator.js";
import { optimisticUpdate } from "../../../../update/optimistic-update.js";
import { readTarget } from "../../../../update/read-target.js";
import { permissionCase } from "./case.js";
import type { PermissionCase } from "./case.js";

interface Counter {
  n: number;
}

const add = (value: Counter): void => {
  value.n++;
};
/** Metadata or tags. */
const changed = (): Record<string, string> => ({ checked: "yes" });
const doc = (container: ContainerClient): ReturnType<typeof jsonBlob<Counter>> => jsonBlob<Counter>(container.getBlockBlobClient("doc"));
const createDoc = (container: ContainerClient): Promise<unknown> => container.getBlockBlobClient("doc").upload('{"n":0}', 7);
const createLog = (container: ContainerClient): Promise<unknown> => container.getAppendBlobClient("log").create();

/** Updates, reads and appends of blobs. */
export const blobCases: readonly PermissionCase[] = [
  permissionCase({ helper: "`readTarget(jsonBlob)`", grants: { container: "r" }, requests: 2, before: ({ container }) => createDoc(container), run: ({ container }) => readTarget(doc(container)) }),
  permissionCase({ helper: "`downloadConsistent`", grants: { container: "r" }, requests: 2, before: ({ container }) => createDoc(container), run: ({ container }) => downloadConsistent(container.getBlobClient("doc")) }),
  permissionCase({ helper: "`optimisticUpdate(jsonBlob)`", grants: { container: "rwc" }, requests: 3, before: ({ container }) => createDoc(container), run: ({ container }) => optimisticUpdate(doc(container), add) }),
  permissionCase({
    helper: "`optimisticUpdate(jsonBlob)`", grants: { container: "r" }, requests: 3, expected: "403 AuthorizationPermissionMismatch",
    before: ({ container }) => createDoc(container), run: ({ container }) => optimisticUpdate(doc(container), add),
  }),
  permissionCase({ helper: "`createIfNotExists(jsonBlob)`", grants: { container: "rwc" }, requests: 1, run: ({ container }) => createIfNotExists(doc(container), { n: 1 }) }),
  permissionCase({
    helper: "`deleteIfUnchanged`", grants: { container: "rwcd" }, requests: 3, before: ({ container }) => createDoc(container),
    run: async ({ container }) => deleteIfUnchanged(doc(container), (await container.getBlobClient("doc").getProperties()).etag ?? ""),
  }),
  permissionCase({ helper: "`optimisticUpdate` with `DELETE`", grants: { container: "rwcd" }, requests: 3, before: ({ container }) => createDoc(container), run: ({ container }) => optimisticUpdate(doc(container), () => DELETE) }),
  permissionCase({
    helper: "`optimisticUpdate` of a blob with tags", grants: { container: "rwct" }, requests: 4,
    before: ({ container }) => container.getBlockBlobClient("doc").upload('{"n":0}', 7, { tags: { a: "b" } }), run: ({ container }) => optimisticUpdate(doc(container), add),
  }),
  permissionCase({ helper: "`optimisticUpdate(blobMetadata)`", grants: { container: "rw" }, requests: 3, before: ({ container }) => createDoc(container), run: ({ container }) => optimisticUpdate(blobMetadata(container.getBlobClient("doc")), changed) }),
  permissionCase({
    helper: "`optimisticUpdate(blobHttpHeaders)`", grants: { container: "rw" }, requests: 3, before: ({ container }) => createDoc(container),
    run: ({ container }) => optimisticUpdate(blobHttpHeaders(container.getBlobClient("doc")), (headers) => ({ ...headers, contentLanguage: "en" })),
  }),
  permissionCase({ helper: "`leasedUpdate(blobTags)`", grants: { container: "wt" }, requests: 5, before: ({ container }) => createDoc(container), run: ({ container }) => leasedUpdate(blobTags(container.getBlobClient("doc")), changed) }),
  permissionCase({ helper: "`leasedUpdate(containerMetadata)`, a SAS of the account", grants: { container: "rw" }, containerSas: "account", requests: 4, run: ({ container }) => leasedUpdate(containerMetadata(container), changed) }),
  permissionCase({ helper: "`IdAllocator`", grants: { container: "rwc" }, requests: 2, run: ({ container }) => new IdAllocator(jsonBlob(container.getBlockBlobClient("ids")), { prefetch: 0 }).next() }),
  permissionCase({
    helper: "`claimPages`", grants: { container: "rw" }, requests: 4, before: ({ container }) => container.getPageBlobClient("pages").create(512),
    run: async ({ container }) => (await claimPages(container.getPageBlobClient("pages"))).write(0, new Uint8Array(512)),
  }),
  permissionCase({ helper: "`appendExactlyOnce`", grants: { container: "rw" }, requests: 4, before: ({ container }) => createLog(container), run: ({ container }) => appendExactlyOnce(container.getAppendBlobClient("log"), "x") }),
  permissionCase({
    helper: "`appendExactlyOnce` with `uniqueRecords`", grants: { container: "ra" }, requests: 3, before: ({ container }) => createLog(container),
    run: ({ container }) => appendExactlyOnce(container.getAppendBlobClient("log"), "x", { uniqueRecords: true }),
  }),
  permissionCase({
    helper: "`purgeOverflow`", grants: { container: "ld" }, requests: 3, slow: true,
    before: async ({ container, workspace }) => {
      await container.getBlockBlobClient("asc-overflow/account/queue/payload").upload("x", 1);
      // Its age is measured by the clock of this machine, to a second.
      await workspace.pause(5_000);
    },
    run: async ({ container }) => expectDeleted(await purgeOverflow(container, { olderThanInMs: 0 })),
  }),
];

/** A purge that deletes nothing would need no permission to delete. */
export function expectDeleted({ deleted }: { readonly deleted: number }): void {
  if (deleted === 0) throw new Error("nothing was deleted");
}
