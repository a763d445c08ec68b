import { text } from "node:stream/consumers";

import type { BlockBlobClient, ContainerClient } from "@azure/storage-blob";
import { type ShareFileClient, ShareServiceClient } from "@azure/storage-file-share";
import { containerMetadata, jsonBlob, leasedUpdate, textFile } from "azure-storage-concurrency";
import { startFileShareServer } from "azure-storage-concurrency/testing";

import { alternate } from "../alternate.js";
import type { Counter } from "../baseline.js";
import type { Bench, Measured } from "../harness.js";

export const leasedUpdates: Bench = {
  name: "leased-update",
  about: "read, change and write under a lease, against the bare calls",
  async *run(env) {
    const container = await env.freshContainer();
    const [ours, baseline] = [container.getBlockBlobClient("ours"), container.getBlockBlobClient("baseline")];
    for (const blob of [ours, baseline]) await blob.upload('{"n":0}', 7);
    const target = jsonBlob<Counter>(ours);
    yield await compare("blob", 4, {
      ours: () => leasedUpdate(target, (counter) => {
          counter.n++;
        }),
      baseline: () => blobBaseline(baseline),
    });

    const [counted, countedBaseline] = [await env.freshContainer(), await env.freshContainer()];
    const metadata = containerMetadata(counted);
    yield await compare("container metadata", 4, {
      ours: () => leasedUpdate(metadata, (m) => void (m["n"] = String(Number(m["n"] ?? 0) + 1))),
      baseline: () => containerBaseline(countedBaseline),
    });

    await using server = await startFileShareServer();
    const share = ShareServiceClient.fromConnectionString(server.connectionString).getShareClient("bench");
    await share.create();
    const file = (name: string): ShareFileClient => share.rootDirectoryClient.getFileClient(name);
    const [byUs, byBaseline, aside] = [file("ours"), file("baseline"), file("baseline.new")];
    for (const each of [byUs, byBaseline]) await each.uploadData(Buffer.from("xx"));
    const content = textFile(byUs);
    yield await compare("file, via a staging file", 7, {
      ours: () => leasedUpdate(content, otherLength),
      baseline: () => fileBaseline(byBaseline, aside, otherLength),
    }, 1.08);
    yield await compare("file, same length", 4, {
      ours: () => leasedUpdate(content, otherContent),
      baseline: () => fileInPlaceBaseline(byBaseline, otherContent),
    }, 1.08);
    // For information: what it costs that no reader sees half a file. The other side writes in place.
    yield await compare("file, against in place", undefined, {
      ours: () => leasedUpdate(content, otherLength),
      baseline: () => fileInPlaceBaseline(byBaseline, otherLength),
    });
  },
};

const otherLength = (content: string): string => (content.length > 100 ? "x" : `${content}x`);
const otherContent = (content: string): string => (content.startsWith("a") ? "b" : "a").repeat(content.length);

async function blobBaseline(blob: BlockBlobClient): Promise<void> {
  const lease = blob.getBlobLeaseClient();
  const { leaseId } = lease;
  await lease.acquireLease(30);
  const answer = await blob.download(0, undefined, { conditions: { leaseId } });
  const counter = JSON.parse(await text(answer.readableStreamBody!)) as Counter;
  counter.n++;
  const body = JSON.stringify(counter);
  await blob.upload(body, Buffer.byteLength(body), {
    conditions: { leaseId, ifMatch: answer.etag! },
    blobHTTPHeaders: { blobContentType: answer.contentType! },
    metadata: answer.metadata!,
  });
  await lease.releaseLease();
}

async function containerBaseline(container: ContainerClient): Promise<void> {
  const lease = container.getBlobLeaseClient();
  const { leaseId } = lease;
  await lease.acquireLease(30);
  const { metadata } = await container.getProperties();
  await container.setMetadata({ ...metadata, n: String(Number(metadata?.["n"] ?? 0) + 1) }, { conditions: { leaseId } });
  await lease.releaseLease();
}

/** Written beside the file and renamed, under the same lease: as the library does it, without its care for what may fail. */
async function fileBaseline(file: ShareFileClient, aside: ShareFileClient, change: (content: string) => string): Promise<void> {
  const lease = file.getShareLeaseClient();
  await lease.acquireLease(-1);
  const leaseAccessConditions = { leaseId: lease.leaseId };
  const answer = await file.download(0, undefined, { leaseAccessConditions });
  const body = Buffer.from(change(await text(answer.readableStreamBody!)));
  const headers = answer.contentType === undefined ? {} : { fileContentType: answer.contentType };
  await aside.create(body.length, { fileHttpHeaders: headers, metadata: answer.metadata ?? {} });
  await aside.getShareLeaseClient(lease.leaseId).acquireLease(-1);
  await aside.uploadRange(body, 0, body.length, { leaseAccessConditions });
  await aside.rename(file.path, {
    replaceIfExists: true,
    sourceLeaseAccessConditions: leaseAccessConditions,
    destinationLeaseAccessConditions: leaseAccessConditions,
  });
  await lease.releaseLease();
}

/** A reader between the two writes sees half of it, and so does everybody after a crash there. */
async function fileInPlaceBaseline(file: ShareFileClient, change: (content: string) => string): Promise<void> {
  const lease = file.getShareLeaseClient();
  await lease.acquireLease(-1);
  const leaseAccessConditions = { leaseId: lease.leaseId };
  const answer = await file.download(0, undefined, { leaseAccessConditions });
  const before = await text(answer.readableStreamBody!);
  const body = Buffer.from(change(before));
  if (body.length !== before.length) await file.resize(body.length, { leaseAccessConditions });
  await file.uploadRange(body, 0, body.length, { leaseAccessConditions });
  await lease.releaseLease();
}

async function compare(name: string, requests: number | undefined, ways: Parameters<typeof alternate>[0], atMost = 1.05): Promise<Measured> {
  const { microseconds, ...figures } = await alternate(ways, { turns: 150, opsPerTurn: 3, warmUpTurns: 300 });
  return {
    name,
    unit: "µs/update",
    ...microseconds,
    ...figures,
    bounds:
      requests === undefined
        ? []
        : [
            { of: "ratio", atMost },
            { of: "requests", atMost: requests },
          ],
  };
}
