import type { Check } from "../check.js";
import { exchange } from "../exchange.js";
import { groupOf, newBlob, newKey, resultOf, tableResult } from "./calls.js";

const contenders = 10;

/** The same from several clients at once: exactly one may succeed, and the response to the others has to be one that the library regards as a conflict. */
async function winners(send: (index: number) => Promise<string>): Promise<string> {
  const responses = await Promise.all(Array.from({ length: contenders }, (_, index) => send(index)));
  const others = [...new Set(responses.filter((response) => response !== "passes"))].sort();
  return `${responses.filter((response) => response === "passes").length} of ${contenders}, the others ${others.join(", ")}`;
}

/** That each write has an ETag of its own, and that of conditional writes under the same condition one succeeds. */
export const contenderChecks: readonly Check[] = [
  ...groupOf("blob", "ETags", [
    {
      name: "ten writes of the same content have ten ETags", helper: "`optimisticUpdate`", expected: "10", requests: 10,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        const etags = new Set<string | undefined>();
        for (let i = 0; i < 10; i++) etags.add((await target.upload("x", 1)).etag);
        return String(etags.size);
      },
    },
    {
      name: "a read has the ETag, the content and the metadata of the last write", helper: "`optimisticUpdate`: its journal is in the metadata", expected: "the same, y, b", requests: 3,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        await target.upload("x", 1, { metadata: { a: "a" } });
        const { etag } = await target.upload("y", 1, { metadata: { a: "b" } });
        const read = await target.download();
        const content: Buffer[] = [];
        for await (const chunk of read.readableStreamBody ?? []) content.push(Buffer.from(chunk));
        return `${read.etag === etag ? "the same" : "another"}, ${Buffer.concat(content).toString()}, ${read.metadata?.["a"] ?? "none"}`;
      },
    },
  ]),
  ...groupOf("blob", "Contenders", [
    {
      name: "Put Blob with the same If-Match", helper: "`optimisticUpdate`", expected: "1 of 10, the others 412 ConditionNotMet", requests: contenders + 1,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        const { etag = "" } = await target.upload("x", 1);
        return winners(async (i) => resultOf(await exchange(() => target.upload(String(i), 1, { conditions: { ifMatch: etag } }))));
      },
    },
    {
      name: "Put Blob with If-None-Match: *", helper: "`createIfNotExists`", expected: "1 of 10, the others 409 BlobAlreadyExists", requests: contenders,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        return winners(async (i) => resultOf(await exchange(() => target.upload(String(i), 1, { conditions: { ifNoneMatch: "*" } }))));
      },
    },
    {
      name: "Append Block at the same position", helper: "`appendExactlyOnce`", expected: "1 of 10, the others 412 AppendPositionConditionNotMet", requests: contenders + 1,
      run: async (workspace) => {
        const target = (await workspace.blobs()).getAppendBlobClient(workspace.name());
        await target.create();
        return winners(async (i) => resultOf(await exchange(() => target.appendBlock(String(i), 1, { conditions: { appendPosition: 0 } }))));
      },
    },
    {
      name: "Lease Blob: acquire", helper: "`withLease`, `BlobLocks`", expected: "1 of 10, the others 409 LeaseAlreadyPresent", requests: contenders + 1,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        await target.upload("x", 1);
        return winners(async () => resultOf(await exchange(() => target.getBlobLeaseClient().acquireLease(15))));
      },
    },
  ]),
  ...groupOf("table", "ETags", [
    {
      name: "ten merges have ten ETags, the last of which is read", helper: "`optimisticUpdate(tableEntity)`", expected: "10, the same", requests: 12,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = newKey(workspace);
        await table.createEntity(key);
        const etags: (string | undefined)[] = [];
        for (let i = 0; i < 10; i++) etags.push((await table.updateEntity({ ...key, i: 0 }, "Merge")).etag);
        const { etag } = await table.getEntity(key.partitionKey, key.rowKey);
        return `${new Set(etags).size}, ${etag === etags.at(-1) ? "the same" : "another"}`;
      },
    },
  ]),
  ...groupOf("table", "Contenders", [
    {
      name: "Merge Entity with the same ETag", helper: "`optimisticUpdate(tableEntity)`", expected: "1 of 10, the others 412 UpdateConditionNotSatisfied", requests: contenders + 1,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = newKey(workspace);
        const { etag = "" } = await table.createEntity(key);
        return winners((i) => tableResult(() => table.updateEntity({ ...key, i }, "Merge", { etag })));
      },
    },
    {
      name: "Insert Entity", helper: "`createIfNotExists(tableEntity)`, inboxes", expected: "1 of 10, the others 409 EntityAlreadyExists", requests: contenders,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = newKey(workspace);
        return winners((i) => tableResult(() => table.createEntity({ ...key, i })));
      },
    },
  ]),
];
