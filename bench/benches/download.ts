import { downloadConsistent } from "azure-storage-concurrency";

import { alternate, inverse } from "../alternate.js";
import type { Bench } from "../harness.js";

const mebibyte = 1024 * 1024;
const sizeInMebibytes = 256;

export const download: Bench = {
  name: "download",
  about: "a blob of 256 MiB into memory, all of one version, against the SDK's downloadToBuffer, which does not care",
  async *run(env) {
    const container = await env.freshContainer();
    const blob = container.getBlockBlobClient("large");
    const stored = Buffer.alloc(sizeInMebibytes * mebibyte);
    for (let at = 0; at < stored.length; at += mebibyte) stored.fill(at / mebibyte, at, at + mebibyte);
    await blob.uploadData(stored);
    const check = (content: Uint8Array): void => {
      // A fast wrong answer is no answer.
      if (!stored.equals(content)) throw new Error("what was downloaded is not what was stored");
    };
    check((await downloadConsistent(blob)).content);

    const ways = { ours: () => downloadConsistent(blob), baseline: () => blob.downloadToBuffer() };
    const { microseconds, ...figures } = await alternate(ways, { turns: 10, opsPerTurn: 1, warmUpTurns: 1 });
    yield {
      name: "download",
      unit: "MiB/s",
      ours: (sizeInMebibytes / microseconds.ours) * 1_000_000,
      baseline: (sizeInMebibytes / microseconds.baseline) * 1_000_000,
      ...inverse(figures),
      requestsPerOp: figures.requestsPerOp,
      bounds: [
        { of: "ratio", atLeast: 1 },
        { of: "requests", atMost: sizeInMebibytes / 4 },
      ],
    };
  },
};
