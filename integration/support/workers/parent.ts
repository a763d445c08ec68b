import { startWorker } from "../workers.js";
import { runWorker } from "../worker-process.js";

/** A worker that has a worker of its own, and says which process that is. */
runWorker(async (_config, parent) => {
  const child = startWorker(new URL("./example.ts", import.meta.url), { do: "hang" });
  await child.receive();
  parent.send(child.pid);
  return new Promise(() => undefined);
});
