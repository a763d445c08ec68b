/** One of several processes that update the same entity: `entity-updaters.ts <connection string> <table>`. */
import { entityUpdates } from "../benches/hot-entity.js";
import type { Task } from "../processes.js";
import { tableClient } from "../storage.js";
import { measureThroughput } from "../throughput.js";

const [connectionString = "", tableName = ""] = process.argv.slice(2);
const table = tableClient(connectionString, tableName);

process.on("message", (task: Task) => {
  void measureThroughput(entityUpdates[task.side](table, "hot", task.side), task).then((throughput) => process.send!(throughput));
});
// The parent has gone, however it ended: no process is left to work for.
process.on("disconnect", () => process.exit());
process.send!("ready");
