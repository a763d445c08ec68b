import { IdAllocator, jsonBlob, tableEntity, type IdCounter } from "../../../src/index.js";
import { fastContainer, fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface TakerConfig {
  readonly connectionString: string;
  readonly container?: string;
  readonly table?: string;
  readonly blockSize: number;
}

/** Takes ids, and reports them by the hundred, until it is told to stop or killed. */
runWorker(async ({ connectionString, container, table, blockSize }: TakerConfig, parent) => {
  const target =
    container === undefined
      ? tableEntity<IdCounter>(fastTable(connectionString, table ?? ""), "ids", "orders")
      : jsonBlob<IdCounter>(fastContainer(connectionString, container).getBlockBlobClient("ids.json"));
  const allocator = new IdAllocator(target, { blockSize });
  const stop = new AbortController();
  void parent.receive().then(() => stop.abort());
  while (!stop.signal.aborted) {
    const alone = await Promise.all(Array.from({ length: 90 }, () => allocator.next()));
    parent.send([...alone, ...(await allocator.nextMany(10))]);
    await new Promise(setImmediate);
  }
});
