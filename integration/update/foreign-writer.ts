import { setTimeout as pause } from "node:timers/promises";

import { containerClient, tableClient } from "../support/clients.js";
import { appliedIds, emptySubject, type Place, type Subject } from "./workers/jobs.js";

/**
 * A program that writes the same blob or entity and has never heard of the journal: each of its writes drops it. It
 * goes past the proxy, and its writes are conditional, so that it knows exactly what it has thrown away.
 */
export class ForeignWriter {
  /** The ids that were part of what it replaced by an empty subject. */
  readonly dropped: string[] = [];
  writes = 0;
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  /** Writes until the promise settles; every fourth time it starts from nothing. */
  async writeUntil(done: Promise<unknown>, everyInMs: number): Promise<void> {
    let over = false;
    const stop = (): void => { over = true; };
    done.then(stop, stop);
    while (!(over as boolean)) {
      await this.write(this.writes % 4 === 3 ? "reset" : "keep");
      await pause(everyInMs);
    }
  }

  /** `"keep"`: the content stays as it is, the journal goes. `"reset"`: both go. */
  async write(what: "keep" | "reset"): Promise<void> {
    for (;;) {
      const { subject, etag } = await this.#read();
      try {
        await this.#replace(what === "keep" ? subject : { ...emptySubject, n: subject.n }, etag);
      } catch (error) {
        if ((error as { statusCode?: number }).statusCode === 412) continue;
        throw error;
      }
      this.writes++;
      if (what === "reset") this.dropped.push(...appliedIds(subject));
      return;
    }
  }

  async #read(): Promise<{ subject: Subject; etag: string }> {
    const place = this.#place;
    if (place.kind === "entity") {
      const { n, applied, etag } = await tableClient(place.table).getEntity<Subject>(place.partitionKey, place.rowKey);
      return { subject: { n, applied, by_nobody: true }, etag };
    }
    const answer = await containerClient(place.container).getBlockBlobClient(place.blob).download();
    const chunks: Uint8Array[] = [];
    for await (const chunk of answer.readableStreamBody!) chunks.push(chunk as Uint8Array);
    return { subject: JSON.parse(Buffer.concat(chunks).toString()) as Subject, etag: answer.etag! };
  }

  async #replace(subject: Subject, etag: string): Promise<void> {
    const place = this.#place;
    if (place.kind === "entity") {
      const { table, partitionKey, rowKey } = place;
      await tableClient(table).updateEntity({ partitionKey, rowKey, ...subject }, "Replace", { etag });
      return;
    }
    const text = JSON.stringify(subject);
    const blob = containerClient(place.container).getBlockBlobClient(place.blob);
    await blob.upload(text, text.length, { conditions: { ifMatch: etag } });
  }
}
