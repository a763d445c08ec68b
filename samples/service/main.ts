/* The process of one instance: `node --import tsx samples/service/main.ts`, with the environment that settings.ts describes. */
import { startService } from "./service.js";
import { readSettings } from "./settings.js";

const settings = readSettings(process.env);
const service = await startService(settings);
console.log(`${settings.instance}: ${settings.roles.join(", ")} at ${service.url}`);
process.send?.({ url: service.url });

let isStopping = false;
const stop = (): void => {
  if (isStopping) return;
  isStopping = true;
  service.stop().then(() => process.exit(0), (error: unknown) => {
    console.error(error);
    process.exit(1);
  }); // prettier-ignore
};
process.on("SIGTERM", stop).on("SIGINT", stop);
// Started by the demo, which has ended: its storage has ended with it.
process.on("disconnect", () => process.exit(1));
