import { parseArgs } from "node:util";
import { startFileShareServer } from "./file-share-server.js";

const { values } = parseArgs({ options: { port: { type: "string", default: "0" } } });
const port = Number(values.port);
if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new RangeError(`--port must be 0 to 65535; got ${values.port}`);

const server = await startFileShareServer({ port });
console.log(`The file-share server listens at ${server.url}`);
console.log(server.connectionString);

// The server alone does not keep the process alive.
const alive = setInterval(() => undefined, 2 ** 30);
const stop = (): void => {
  clearInterval(alive);
  void server.stop();
};
process.once("SIGINT", stop).once("SIGTERM", stop);
