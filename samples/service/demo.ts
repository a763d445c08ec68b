/*
 * `npm run service`: three instances, clients that order, and the dashboard, on an Azurite of its own. Every 20 seconds an instance is
 * killed and started again. Ctrl-C, or `--seconds N`, ends it, and compares the books.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startAzurite } from "azure-storage-concurrency/testing";
import { readBooks } from "./books.js";
import type { Books } from "./books.js";
import { openClients } from "./clients.js";
import { startInstance } from "./instances.js";
import type { Instance } from "./instances.js";
import { startLoad } from "./load.js";

const { values } = parseArgs({
  options: {
    seconds: { type: "string" },
    clients: { type: "string", default: "12" },
    "no-dashboard": { type: "boolean", default: false },
  },
});
const clientCount = positive("--clients", values.clients);
const runForInMs = values.seconds === undefined ? undefined : positive("--seconds", values.seconds) * 1_000;
const newsEveryInMs = 5_000;
const killEveryInMs = 20_000;
/** Messages that a killed instance had received come back when their visibility timeout is over. */
const settleWithinInMs = 180_000;

const stopped = new AbortController();
process.on("SIGINT", () => stopped.abort()).on("SIGTERM", () => stopped.abort());

const azurite = await startAzurite();
const { connectionString } = azurite;
const prefix = "shop";
const env = { AZURE_STORAGE_CONNECTION_STRING: connectionString, SHOP_PREFIX: prefix, SHOP_CLOSE_EVERY_MS: "10000", PORT: "0" };
const names = ["Ada", "Grace", "Edsger"];
const instances = await Promise.all(names.map((name) => startInstance(name, env)));
for (const { name, url } of instances) console.log(`${name.padEnd(8)} ${url}   /ready  /reports  /metrics`);
const dashboard = values["no-dashboard"] ? undefined : await openDashboard();
if (dashboard) console.log(`\nThe dashboard: ${dashboard.url}\n`);

const load = startLoad({ urls: () => instances.map(({ url }) => url), clients: clientCount, pauseInMs: 300 });
let killed = 0;
const killing = killAndRestart();
const started = performance.now();
while (!stopped.signal.aborted) {
  const left = runForInMs === undefined ? Infinity : runForInMs - (performance.now() - started);
  if (left <= 0) break;
  await pause(Math.min(newsEveryInMs, left), undefined, { signal: stopped.signal }).catch(() => undefined);
  const elapsed = Math.round((performance.now() - started) / 1_000);
  console.log(`${elapsed} s: ${load.placed.size} orders placed, ${load.repeated} requests repeated, ${killed} instances killed`);
}

stopped.abort();
console.log("Waits until all that was ordered is paid for.");
await killing;
await load.stop();
const books = await settledBooks();
const codes = await Promise.all(instances.map((instance) => instance.stop()));
await dashboard?.stop();
await azurite.stop();

const { orders, paid, declined, poison, receipts, reports, isSettled, differences } = books;
console.log(`${orders} orders: ${paid} paid, ${declined} declined, ${poison} in the poison queue. ${receipts} receipts, ${reports} reports.`);
for (const difference of differences) console.log(`DIFFERENT: ${difference}`);
if (!isSettled) console.log("DIFFERENT: not everything was settled in time");
if (codes.some((code) => code !== 0)) console.log(`DIFFERENT: the instances have ended with the codes ${codes.join(", ")}`);
const agrees = differences.length === 0 && isSettled && codes.every((code) => code === 0);
console.log(agrees ? "The books agree: each order once, each payment once, each receipt once." : "The books do not agree.");
process.exit(agrees ? 0 : 1);

/** What an instance was doing when it was killed, the others take over. */
async function killAndRestart(): Promise<void> {
  for (let n = 0; await isTimeToKill(); n++) {
    const at = n % instances.length;
    const { name } = instances[at]!;
    await instances[at]!.kill();
    killed++;
    console.log(`${name} was killed, and is started again.`);
    instances[at] = await startInstance(name, env);
  }
}

/** False: the demo ends. */
async function isTimeToKill(): Promise<boolean> {
  return pause(killEveryInMs, true, { signal: stopped.signal }).catch(() => false);
}

async function settledBooks(): Promise<Books> {
  const clients = openClients({ connectionString, prefix });
  const since = performance.now();
  for (;;) {
    const read = await readBooks(clients, load.placed, load.givenUp);
    if ((read.isSettled && read.differences.length === 0) || performance.now() - since > settleWithinInMs) return read;
    await pause(500);
  }
}

/** The command that operators use, as a process of its own. */
async function openDashboard(): Promise<Pick<Instance, "url"> & { stop(): Promise<void> }> {
  const command = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
  const show = ["-c", prefix, "-q", `${prefix}-payments`, "-q", `${prefix}-receipts`, "-t", `${prefix}orders`, "--interval", "2", "--allow-actions"];
  const child = spawn(process.execPath, [command, "--json", "dashboard", ...show], { env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: connectionString }, stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const printed = new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      try {
        resolve((JSON.parse(text) as { url: string }).url);
      } catch {
        // The rest of the line comes with the next piece.
      }
    });
    child.once("exit", () => reject(new Error("the dashboard has not started")));
  });
  return {
    url: await printed,
    stop: async () => {
      child.kill("SIGINT");
      await exited;
    },
  };
}

function positive(name: string, text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  console.error(`${name} must be a whole number of at least 1.`);
  process.exit(2);
}
