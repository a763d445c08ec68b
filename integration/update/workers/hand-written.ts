import { setTimeout as pause } from "node:timers/promises";

import type { TableClient } from "@azure/data-tables";
import type { BlockBlobClient } from "@azure/storage-blob";

import type { Subject } from "./jobs.js";

type Apply = (subject: Subject) => void;

/** The loop that everybody writes. It takes a 412 for a lost race, also the one that its own write caused. */
export function updateBlobByHand(blob: BlockBlobClient, apply: Apply): Promise<void> {
  return untilConditionHolds(async () => {
    const answer = await blob.download();
    const chunks: Uint8Array[] = [];
    for await (const chunk of answer.readableStreamBody!) chunks.push(chunk as Uint8Array);
    const subject = JSON.parse(Buffer.concat(chunks).toString()) as Subject;
    apply(subject);
    const text = JSON.stringify(subject);
    await blob.upload(text, Buffer.byteLength(text), { conditions: { ifMatch: answer.etag! } });
  });
}

export function updateEntityByHand(table: TableClient, partitionKey: string, rowKey: string, apply: Apply): Promise<void> {
  return untilConditionHolds(async () => {
    const entity = await table.getEntity<Subject>(partitionKey, rowKey);
    apply(entity);
    await table.updateEntity({ partitionKey, rowKey, n: entity.n }, "Merge", { etag: entity.etag });
  });
}

async function untilConditionHolds(attempt: () => Promise<void>): Promise<void> {
  for (let retry = 0; ; retry++) {
    try {
      await attempt();
      return;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 412) throw error;
    }
    await pause(Math.random() * Math.min(1_000, 10 * 2 ** retry));
  }
}
