/**
 * What the library is compared with: read, change and write under a condition, as one writes it on the plain
 * SDK; and the loop around it, for when another client was first.
 */
import { setTimeout as pause } from "node:timers/promises";
import { text } from "node:stream/consumers";

import type { TableClient } from "@azure/data-tables";
import type { BlockBlobClient } from "@azure/storage-blob";

export interface Counter {
  n: number;
}

/** The part of the SDK's client that is used, so that a fake will do as well. */
export type CounterTable = Pick<TableClient, "getEntity" | "updateEntity">;
export type CounterBlob = Pick<BlockBlobClient, "download" | "upload">;

export async function incrementEntityOnce(table: CounterTable, partitionKey: string, rowKey: string): Promise<void> {
  const { n, etag } = await table.getEntity<Counter>(partitionKey, rowKey);
  await table.updateEntity<Counter>({ partitionKey, rowKey, n: n + 1 }, "Merge", { etag });
}

export async function incrementBlobOnce(blob: CounterBlob): Promise<void> {
  const answer = await blob.download();
  const counter = JSON.parse(await text(answer.readableStreamBody!)) as Counter;
  counter.n += 1;
  const body = JSON.stringify(counter);
  await blob.upload(body, Buffer.byteLength(body), {
    conditions: { ifMatch: answer.etag! },
    blobHTTPHeaders: { blobContentType: answer.contentType! },
    metadata: answer.metadata!,
  });
}

/** Tries again after a conflict, with full jitter between 10 ms and 1 s. Returns false if it was stopped before. */
export async function untilItLands(once: () => Promise<void>, stop: AbortSignal): Promise<boolean> {
  for (let attempt = 0; !stop.aborted; attempt++) {
    try {
      await once();
      return true;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 412) throw error;
    }
    await pause(Math.random() * Math.min(1_000, 10 * 2 ** attempt));
  }
  return false;
}
