import type { BlobCallOptions, BlobDownloadLike } from "../../src/clients.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";

/** Content of which each byte tells its version: what is mixed shows. */
export function version(value: number, length = 100): Uint8Array {
  return new Uint8Array(length).fill(value);
}

/** A blob with 100 bytes of version 1 on a service of its own. */
export function contentBlob(length = 100): { service: FakeService; blob: FakeBlockBlob } {
  const service = new FakeService();
  const blob = new FakeBlockBlob(service);
  blob.put(version(1, length));
  return { service, blob };
}

/** Lets a test replace the body of some answers. */
export class TornBlob extends FakeBlockBlob {
  /** Given the number of the download from 1; undefined leaves the answer alone. */
  body: (download: number, answer: BlobDownloadLike, options: BlobCallOptions) => Partial<BlobDownloadLike> | undefined = () => undefined;
  readonly asked: { offset: number; count: number | undefined; ifMatch: string | undefined }[] = [];

  override async download(offset = 0, count?: number, options: BlobCallOptions = {}): Promise<BlobDownloadLike> {
    this.asked.push({ offset, count, ifMatch: options.conditions?.ifMatch });
    const number = this.asked.length;
    const answer = await super.download(offset, count, options);
    return { ...answer, ...this.body(number, answer, options) };
  }
}

export function tornBlob(length = 100): TornBlob {
  const blob = new TornBlob(new FakeService());
  blob.put(version(1, length));
  return blob;
}

/** The body of an answer that breaks off after so many bytes. */
export async function* brokenAfter(count: number, error: Error, value = 1): AsyncGenerator<Uint8Array> {
  if (count > 0) yield version(value, count);
  throw error;
}
