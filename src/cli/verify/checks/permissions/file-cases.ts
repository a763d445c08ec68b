import type { ShareClient } from "@azure/storage-file-share";
import { withLease } from "../../../../lease/with-lease.js";
import { inspectLease } from "../../../../lock/inspect-lease.js";
import { jsonFile } from "../../../../target/file-content.js";
import { fileHttpHeaders, fileMetadata } from "../../../../target/file-properties.js";
import { shareMetadata } from "../../../../target/share-metadata.js";
import { createIfNotExists } from "../../../../update/create-if-not-exists.js";
import { leasedUpdate } from "../../../../update/leased-update.js";
import { purgeStagingFiles } from "../../../../update/purge-staging-files.js";
import { DELETE } from "../../../../update/mutator.js";
import { readTarget } from "../../../../update/read-target.js";
import { permissionCase } from "./case.js";
import type { PermissionCase } from "./case.js";

const settings = (share: ShareClient): ReturnType<typeof jsonFile<{ n: number }>> => jsonFile<{ n: number }>(share.rootDirectoryClient.getFileClient("settings.json"));
const create = ({ share }: { readonly share: ShareClient }): Promise<unknown> => createIfNotExists(settings(share), { n: 9 });

/** Files of a share. */
export const fileCases: readonly PermissionCase[] = [
  permissionCase({ helper: "`readTarget(jsonFile)`", grants: { share: "r" }, requests: 4, before: create, run: ({ share }) => readTarget(settings(share)) }),
  permissionCase({ helper: "`createIfNotExists(jsonFile)`", grants: { share: "rcwd" }, requests: 3, run: create }),
  permissionCase({
    helper: "`leasedUpdate(jsonFile)`, of another length", grants: { share: "rcwd" }, requests: 10, before: create,
    run: ({ share }) => leasedUpdate(settings(share), (value) => {
      value.n++;
    }),
  }),
  permissionCase({ helper: "`leasedUpdate(jsonFile)` with `DELETE`", grants: { share: "rcwd" }, requests: 7, before: create, run: ({ share }) => leasedUpdate(settings(share), () => DELETE) }),
  permissionCase({
    helper: "`withLease` of a file", grants: { share: "rw" }, requests: 6, before: create,
    run: ({ share }) => {
      const file = share.rootDirectoryClient.getFileClient("settings.json");
      return withLease(file, () => inspectLease(file));
    },
  }),
  permissionCase({
    helper: "`leasedUpdate(fileMetadata)`", grants: { share: "rw" }, requests: 7, before: create,
    run: ({ share }) => leasedUpdate(fileMetadata(share.rootDirectoryClient.getFileClient("settings.json")), () => ({ checked: "yes" })),
  }),
  permissionCase({
    helper: "`leasedUpdate(fileHttpHeaders)`", grants: { share: "rw" }, requests: 7, before: create,
    run: ({ share }) => leasedUpdate(fileHttpHeaders(share.rootDirectoryClient.getFileClient("settings.json")), (headers) => ({ ...headers, contentLanguage: "en" })),
  }),
  permissionCase({
    helper: "`leasedUpdate(shareMetadata)`, a SAS of the account", grants: { share: "rw" }, shareSas: "account", requests: 4,
    run: ({ share }) => leasedUpdate(shareMetadata(share), () => ({ checked: "yes" })),
  }),
  permissionCase({ helper: "`purgeStagingFiles`", grants: { share: "lrwd" }, requests: 1, run: ({ share }) => purgeStagingFiles(share) }),
];
