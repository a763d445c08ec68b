import { countSends } from "../../../core/request.js";
import type { Check } from "../check.js";
import { removal } from "../check.js";
import { exchange } from "../exchange.js";
import { groupOf, newBlob, newKey, resultOf, tableResult } from "./calls.js";
import type { Part } from "./calls.js";
import { createFile } from "./files.js";

const leaseId = "7e0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d31";

/** Twice the same request, as an SDK sends it if the first response is lost. */
async function twice(send: () => Promise<object>): Promise<string> {
  const first = resultOf(await exchange(send));
  return `${first}, then ${resultOf(await exchange(send))}`;
}

/** How many sends the library counts for one call, from the listeners that the SDK adds to its signal. */
async function sendsOf(call: (abortSignal: AbortSignal) => Promise<unknown>): Promise<string> {
  const { signal } = new AbortController();
  const counter = countSends(signal);
  try {
    await call(signal);
    return `${counter.sends()} for one send`;
  } finally {
    counter.stop();
  }
}

const counted = "1 for one send";
const countHelper = "all writes: how often a request was sent says what a response means";

/** What a repeated request does, as after a lost response; and that the library can tell one send from two. */
export const sendChecks: readonly Check[] = [
  ...groupOf("blob", "The same request a second time", [
    {
      name: "Put Blob with If-Match", helper: "`optimisticUpdate` looks into the journal", expected: "passes, then 412 ConditionNotMet", requests: 3,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        const { etag = "" } = await target.upload("x", 1);
        return twice(() => target.upload("y", 1, { conditions: { ifMatch: etag } }));
      },
    },
    {
      name: "Put Blob with If-None-Match: *", helper: "`createIfNotExists`", source: "recorded", expected: "passes, then 409 BlobAlreadyExists", requests: 2,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        return twice(() => target.upload("y", 1, { conditions: { ifNoneMatch: "*" } }));
      },
    },
    {
      name: "Delete Blob with If-Match", helper: "`deleteIfUnchanged` reads back", source: "believed",
      expected: "passes, then 404 BlobNotFound", emulator: "passes, then 412 ConditionNotMet", requests: 3,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        const { etag = "" } = await target.upload("x", 1);
        return twice(() => target.delete({ conditions: { ifMatch: etag } }));
      },
    },
    {
      name: "Append Block with a position", helper: "`appendExactlyOnce`", expected: "passes, then 412 AppendPositionConditionNotMet", requests: 3,
      run: async (workspace) => {
        const target = (await workspace.blobs()).getAppendBlobClient(workspace.name());
        await target.create();
        return twice(() => target.appendBlock("x", 1, { conditions: { appendPosition: 0 } }));
      },
    },
    {
      name: "Lease Blob: acquire with an id", helper: "`withLease`", expected: "passes, then passes", requests: 3,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        await target.upload("x", 1);
        return twice(() => target.getBlobLeaseClient(leaseId).acquireLease(15));
      },
    },
    {
      name: "Lease Blob: release", helper: "`withLease`: a release that is rejected because of the id has been carried out", source: "documented; measured on Azurite: the code",
      expected: "passes, then 409 LeaseIdMismatchWithLeaseOperation", requests: 4,
      run: async (workspace) => {
        const target = await newBlob(workspace);
        await target.upload("x", 1);
        const lease = target.getBlobLeaseClient(leaseId);
        await lease.acquireLease(15);
        return twice(() => lease.releaseLease());
      },
    },
    {
      name: "Set Blob Properties, sequence number: increment", helper: "`claimPages`", expected: "passes, then passes: 2", requests: 4,
      run: async (workspace) => {
        const target = (await workspace.blobs()).getPageBlobClient(workspace.name());
        await target.create(512);
        const responses = await twice(() => target.updateSequenceNumber("increment"));
        return `${responses}: ${(await target.getProperties()).blobSequenceNumber ?? "none"}`;
      },
    },
  ]),
  ...groupOf("blob", "How often the SDK sends", [
    { name: "Put Blob", helper: countHelper, source: "measured on Azurite", expected: counted, requests: 1, run: async (workspace) => {
      const target = await newBlob(workspace);
      return sendsOf((abortSignal) => target.upload("x", 1, { abortSignal }));
    } },
  ]),
  ...groupOf("table", "The same request a second time", [
    {
      name: "Insert Entity", helper: "`createIfNotExists(tableEntity)`", expected: "passes, then 409 EntityAlreadyExists", requests: 2,
      run: async (workspace) => {
        const table = await workspace.table();
        const entity = newKey(workspace);
        return `${await tableResult(() => table.createEntity(entity))}, then ${await tableResult(() => table.createEntity(entity))}`;
      },
    },
    ...(["Merge", "Replace"] as const).map((mode): Part => ({
      name: `${mode === "Merge" ? "Merge" : "Update"} Entity with an ETag`, helper: "`optimisticUpdate(tableEntity)`", expected: "passes, then 412 UpdateConditionNotSatisfied", requests: 3,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = newKey(workspace);
        const { etag = "" } = await table.createEntity(key);
        const send = (): Promise<string> => tableResult(() => table.updateEntity({ ...key, a: 1 }, mode, { etag }));
        return `${await send()}, then ${await send()}`;
      },
    })),
    {
      name: "Delete Entity with an ETag", helper: "`deleteIfUnchanged(tableEntity)`", expected: "passes, then 404 ResourceNotFound", requests: 3,
      run: async (workspace) => {
        const table = await workspace.table();
        const key = newKey(workspace);
        const { etag = "" } = await table.createEntity(key);
        const send = (): Promise<string> => tableResult(() => table.deleteEntity(key.partitionKey, key.rowKey, { etag }));
        return `${await send()}, then ${await send()}`;
      },
    },
  ]),
  ...groupOf("table", "How often the SDK sends", [
    { name: "Insert or Merge Entity", helper: countHelper, source: "measured on Azurite", expected: counted, requests: 1, run: async (workspace) => {
      const table = await workspace.table();
      return sendsOf((abortSignal) => table.upsertEntity(newKey(workspace), "Merge", { abortSignal }));
    } },
    { name: "a transaction", helper: countHelper, source: "measured on Azurite", expected: counted, requests: 1, run: async (workspace) => {
      const table = await workspace.table();
      const entity = newKey(workspace);
      return sendsOf((abortSignal) => table.submitTransaction([["create", { ...entity }]], { abortSignal }));
    } },
  ]),
  ...groupOf("queue", "The same request a second time", [
    {
      name: "Put Message", helper: "`enqueue` with an `idempotencyKey`", expected: "2 messages", requests: 4 + removal.plain,
      run: async (workspace) => {
        const queue = await workspace.queue();
        await queue.sendMessage("x");
        await queue.sendMessage("x");
        return `${(await queue.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.length} messages`;
      },
    },
    {
      name: "Delete Message", helper: "`QueueConsumer`", expected: "passes, then 404 MessageNotFound", requests: 4 + removal.plain,
      run: async (workspace) => {
        const queue = await workspace.queue();
        const { messageId, popReceipt } = await queue.sendMessage("x");
        return twice(() => queue.deleteMessage(messageId, popReceipt));
      },
    },
  ]),
  ...groupOf("queue", "How often the SDK sends", [
    { name: "Put Message", helper: countHelper, source: "measured on Azurite", expected: counted, requests: 2 + removal.plain, run: async (workspace) => {
      const queue = await workspace.queue();
      return sendsOf((abortSignal) => queue.sendMessage("x", { abortSignal }));
    } },
  ]),
  ...groupOf("file", "How often the SDK sends", [
    { name: "Put Range", helper: countHelper, source: "measured on Azurite", expected: counted, requests: 3, run: async (workspace) => {
      const file = await createFile(workspace);
      return sendsOf((abortSignal) => file.uploadRange("x", 0, 1, { abortSignal }));
    } },
  ]),
];
