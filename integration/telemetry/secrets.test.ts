import { TableClient } from "@azure/data-tables";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  ContainerClient,
  generateAccountSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { ShareClient, ShareFileClient, ShareServiceClient, StorageSharedKeyCredential as FileCredential } from "@azure/storage-file-share";
import { QueueClient } from "@azure/storage-queue";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { acquireLease, BlobLocks, breakLease, bytesFile, ClaimInbox, createIfNotExists, enqueue, fileMetadata, inspectLease, jsonBlob, jsonFile, LeaderElection, leasedUpdate, optimisticUpdate, overwrite, purgeStagingFiles, purgeTombstones, QueueConsumer, readTarget, redrive, deleteIfUnchanged, retryWhileInUse, runTransaction, Semaphore, tableEntity, TableLock, tryAcquireLease, withLease } from "../../src/index.js";
import {
  respondWith,
  dropResponse,
  emulatorAccount,
  type FaultProxy,
  type FaultRule,
  type FileShareServer,
  isWrite,
  replaceEndpoints,
  startFaultProxy,
  startFileShareServer,
} from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshQueue, freshTable, queueClient, tableClient } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { RecordedSpans } from "./recorded-spans.js";
import { Sinks } from "./sinks.js";

/** In every value that is stored or sent. */
const payload = "payload-3f9c1e7a";
/** In the message of every error that a caller's own function throws: its caller gets it back, nobody else may. */
const confidence = "confidence-77b2d4c0";
const wrongKey = Buffer.from("a key that is no key of this account, but as long as one would be".padEnd(64, ".")).toString("base64");

interface Clients {
  container: ContainerClient;
  table: TableClient;
  queue: QueueClient;
  poison: QueueClient;
  file: ShareFileClient;
  share: ShareClient;
}

interface Names {
  readonly container: string;
  readonly table: string;
  readonly queue: string;
  readonly share: string;
}

let spans: RecordedSpans;
let sinks: Sinks;
let proxies: { blob: FaultProxy; table: FaultProxy; queue: FaultProxy; file: FaultProxy };
let files: FileShareServer;
const secrets = new Map<string, string>();

beforeAll(async () => {
  const { blobUrl, tableUrl, queueUrl } = azurite();
  files = await startFileShareServer();
  proxies = {
    blob: await startFaultProxy(blobUrl),
    table: await startFaultProxy(tableUrl),
    queue: await startFaultProxy(queueUrl),
    file: await startFaultProxy(files.url),
  };
  spans = new RecordedSpans();
  sinks = new Sinks();
  sinks.listenToLogs();
});

afterAll(async () => {
  sinks.stop();
  await spans.stop();
  await Promise.all(Object.values(proxies).map((proxy) => proxy.stop()));
  await files.stop();
});

function byKey(names: Names, key: string): Clients {
  const endpoints = { blobUrl: proxies.blob.url, tableUrl: proxies.table.url, queueUrl: proxies.queue.url };
  const connection = replaceEndpoints(azurite().connectionString, endpoints).replace(emulatorAccount.key, key);
  const queue = (name: string): QueueClient => new QueueClient(connection, name, { retryOptions: { maxTries: 1 } });
  return {
    container: new ContainerClient(connection, names.container, { retryOptions: { maxTries: 1 } }),
    table: TableClient.fromConnectionString(connection, names.table, { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } }),
    queue: queue(names.queue),
    poison: queue(`${names.queue}-poison`),
    file: new ShareFileClient(`${proxies.file.url}/${names.share}/doc`, new FileCredential(files.accountName, key), { retryOptions: { maxTries: 1 } }),
    share: new ShareClient(`${proxies.file.url}/${names.share}`, new FileCredential(files.accountName, key), { retryOptions: { maxTries: 1 } }),
  };
}

/** Clients whose URLs are their credentials. */
function bySignature(names: Names, expiresInMs: number): Clients {
  const credential = new StorageSharedKeyCredential(emulatorAccount.name, emulatorAccount.key);
  const sas = generateAccountSASQueryParameters(
    {
      permissions: AccountSASPermissions.parse("rwdlacup"),
      services: AccountSASServices.parse("bqtf").toString(),
      resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
      expiresOn: new Date(Date.now() + expiresInMs),
      startsOn: new Date(Date.now() - 7_200_000),
    },
    credential,
  );
  const { signature } = sas;
  secrets.set(`signature for ${expiresInMs} ms`, signature);
  secrets.set(`signature for ${expiresInMs} ms, encoded`, encodeURIComponent(signature));
  const query = sas.toString();
  const queue = (name: string): QueueClient => new QueueClient(`${proxies.queue.url}/${name}?${query}`, undefined, { retryOptions: { maxTries: 1 } });
  return {
    container: new ContainerClient(`${proxies.blob.url}/${names.container}?${query}`, undefined, { retryOptions: { maxTries: 1 } }),
    table: new TableClient(`${proxies.table.url}?${query}`, names.table, { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } }),
    queue: queue(names.queue),
    poison: queue(`${names.queue}-poison`),
    file: new ShareFileClient(`${proxies.file.url}/${names.share}/doc?${query}`, undefined, { retryOptions: { maxTries: 1 } }),
    share: new ShareClient(`${proxies.file.url}/${names.share}?${query}`, undefined, { retryOptions: { maxTries: 1 } }),
  };
}

async function freshNames(): Promise<Names> {
  const [container, table, queue] = await Promise.all([freshContainer(), freshTable(), freshQueue()]);
  await queueClient(`${queue.name}-poison`).create();
  await ShareServiceClient.fromConnectionString(files.connectionString).createShare(queue.name);
  return { container: container.containerName, table: table.tableName, queue: queue.name, share: queue.name };
}

/** Every helper once or twice, with payloads, and with functions that throw. What they reject with is noted. */
async function useEverything({ container, table, queue, poison, file, share }: Clients): Promise<string[]> {
  const outcomes: string[] = [];
  const attempt = async (name: string, call: () => Promise<unknown>): Promise<void> => {
    try {
      await call();
      outcomes.push(`${name}: ok`);
    } catch (error) {
      outcomes.push(`${name}: ${(error as Error).name}`);
      // An error of the caller's own says what the caller made it say.
      if (!(error as Error).message.includes(confidence)) sinks.noteError(error, `error of ${name}`);
    }
  };
  const blob = container.getBlockBlobClient("doc");
  const doc = jsonBlob<{ text: string; n: number }>(blob);
  const entity = tableEntity<{ text: string; n: number }>(table, "p", "r");
  const initial = { text: payload, n: 0 };
  const patient = { timeoutInMs: 1_500, maxAttempts: 3 };
  const brief = { waitInMs: 300, durationInSeconds: 15 };
  const locks = new BlobLocks(container, { defaults: brief });
  const confide = (): never => {
    throw new Error(`${confidence}: ${payload}`);
  };

  await attempt("optimisticUpdate blob", () => optimisticUpdate(doc, (d) => { d.n++; }, { initial, ...patient }));
  await attempt("optimisticUpdate entity", () => optimisticUpdate(entity, (d) => { d.n++; }, { initial, ...patient }));
  await attempt("optimisticUpdate without journal", () => optimisticUpdate(doc, (d) => { d.n++; }, { initial, journal: false, ...patient }));
  await attempt("optimisticUpdate throwing", () => optimisticUpdate(doc, confide, { initial, ...patient }));
  const quoting = {
    "~standard": { version: 1 as const, vendor: "test", validate: (value: unknown) => ({ issues: [{ message: `not ${JSON.stringify(value)}`, path: ["text"] }] }) },
  };
  const broken = container.getBlockBlobClient("broken");
  await attempt("schema", () => overwrite(jsonBlob(blob, { schema: quoting }), initial));
  await attempt("broken JSON", async () => {
    await broken.upload(payload, payload.length);
    await readTarget(broken);
  });
  await attempt("readTarget", () => readTarget(doc));
  await attempt("createIfNotExists", () => createIfNotExists(doc, initial));
  await attempt("overwrite", () => overwrite(doc, initial));
  await attempt("deleteIfUnchanged", () => deleteIfUnchanged(doc, '"0x0"'));
  await attempt("runTransaction", () => runTransaction(table, "t", (tx) => { tx.upsert({ rowKey: "a", text: payload }); }, patient));
  await attempt("runTransaction throwing", () => runTransaction(table, "t", confide, patient));
  await attempt("purgeTombstones", () => purgeTombstones(table, { partitionKey: "t" }));
  await attempt("withLease", () => withLease(blob, () => undefined, { ...brief, createIfNotExists: true }));
  await attempt("withLease throwing", () => withLease(blob, confide, brief));
  await attempt("acquireLease", async () => (await acquireLease(blob, brief)).release());
  await attempt("tryAcquireLease", async () => (await tryAcquireLease(blob))?.release());
  await attempt("inspectLease", () => inspectLease(blob));
  await attempt("breakLease", () => breakLease(blob));
  await attempt("withLock", () => locks.withLock("orders", () => undefined));
  await attempt("withLocks", () => locks.withLocks(["a", "b"], () => undefined));
  await attempt("locks.inspect", () => locks.inspect("orders"));
  await attempt("break", () => locks.break("orders"));
  await attempt("Semaphore", () => new Semaphore(locks, "slots", 2).withSlot(() => undefined));
  await attempt("TableLock", () =>
    new TableLock(table, locks).withLock(async (held) => {
      const partition = await held.partition("q");
      await partition.submit([["upsert", { rowKey: "a", text: payload }]]);
    }),
  );
  await attempt("LeaderElection", async () => {
    let elected!: () => void;
    const work = new Promise<void>((resolve) => (elected = resolve));
    const onElected = (): never => {
      elected();
      return confide();
    };
    const election = new LeaderElection(locks, "leader", onElected, { cooldownInMs: 10_000 });
    election.on("error", () => undefined); // the error of the work itself
    await election.start();
    await Promise.race([work, pause(300)]);
    await election.stop();
  });
  const shared = jsonFile<typeof initial>(file);
  await attempt("leasedUpdate blob", () => leasedUpdate(doc, (d) => { d.n++; }, { initial, ...patient, ...brief }));
  await attempt("leasedUpdate file", () => leasedUpdate(shared, (d) => { d.n++; }, { initial, ...patient, waitInMs: 300 }));
  await attempt("leasedUpdate guarded", () => leasedUpdate(shared, (d) => ({ ...d, n: d.n + 1_000 }), { initial, ...patient, waitInMs: 300, crashGuard: locks }));
  await attempt("leasedUpdate throwing", () => leasedUpdate(shared, confide, { initial, ...patient, waitInMs: 300 }));
  await attempt("leasedUpdate metadata", () => leasedUpdate(fileMetadata(file), (m) => void (m["text"] = "seen"), { ...patient, waitInMs: 300 }));
  await attempt("createIfNotExists file", () => createIfNotExists(shared, initial));
  await attempt("overwrite file", () => overwrite(shared, initial));
  await attempt("purgeStagingFiles", () => purgeStagingFiles(share));
  await attempt("broken file", async () => {
    await overwrite(bytesFile(file), new TextEncoder().encode(payload));
    await readTarget(shared);
  });
  await attempt("withLease file", () => withLease(file, confide, { waitInMs: 300 }));
  await attempt("retryWhileInUse", () =>
    retryWhileInUse(({ requestOptions }) => blob.delete({ ...requestOptions, conditions: { ifMatch: '"0x0"' } }), { timeoutInMs: 100 }),
  );
  await attempt("enqueue", () => enqueue(queue, { text: payload }));
  await attempt("enqueue again", () => enqueue(queue, { text: payload, fails: true }));
  const consumer = new QueueConsumer<{ fails?: boolean }>(queue, ({ fails }) => fails ? confide() : undefined, {
    inbox: new ClaimInbox(table),
    poisonQueue: poison,
    maxAttempts: 2,
    // An error of the application, which is an event: one that there is in each run in which the consumer starts.
    retryDelayInMs: (attempt) => {
      throw new RangeError(`no delay after attempt ${attempt}`);
    },
    drainTimeoutInMs: 500,
  });
  for (const event of ["error", "lost"] as const) {
    consumer.on(event, (news: unknown) => sinks.noteError(event === "error" ? news : (news as { error: unknown }).error, `event ${event}`));
  }
  let told = 0;
  const thrice = new Promise<void>((resolve) => {
    const count = (): void => { if (++told === 3) resolve(); };
    for (const event of ["completed", "poisoned", "lost", "error"] as const) consumer.on(event, count);
  });
  await attempt("QueueConsumer", async () => {
    await consumer.start();
    await Promise.race([thrice, pause(20_000)]);
  });
  await consumer.stop();
  await attempt("redrive", () => redrive(poison, queue, { maxMessages: 1 }));
  return outcomes;
}

function arm(rules: readonly FaultRule[]): void {
  for (const proxy of Object.values(proxies)) proxy.setRules(rules);
}

/** What is stored for operators to look at: metadata of all blobs, and all inbox records. */
async function noteStored(names: Names): Promise<void> {
  for await (const item of containerClient(names.container).listBlobsFlat({ includeMetadata: true })) {
    sinks.note("metadata", JSON.stringify([item.name, item.metadata]));
  }
  for await (const record of tableClient(names.table).listEntities({ queryOptions: { filter: `PartitionKey eq '${emulatorAccount.name}:${names.queue}'` } })) {
    sinks.note("inbox record", JSON.stringify(record));
  }
}

describe("after a run of everything with failures", () => {
  const outcomes: Record<string, string[]> = {};

  beforeAll(async () => {
    secrets.set("account key", emulatorAccount.key);
    secrets.set("wrong key", wrongKey);
    const run = async (name: string, clients: (names: Names) => Clients, rules: readonly FaultRule[]): Promise<void> => {
      const names = await freshNames();
      arm(rules);
      outcomes[name] = await useEverything(clients(names));
      arm([]);
      await noteStored(names);
    };
    const faults = [respondWith(503, { probability: 0.15 }), dropResponse({ probability: 0.15, when: isWrite })];
    await run("key, no faults", (names) => byKey(names, emulatorAccount.key), []);
    await run("key, faults", (names) => byKey(names, emulatorAccount.key), faults);
    await run("key, always busy", (names) => byKey(names, emulatorAccount.key), [respondWith(503)]);
    await run("wrong key", (names) => byKey(names, wrongKey), []);
    await run("signature, no faults", (names) => bySignature(names, 3_600_000), []);
    await run("signature, faults", (names) => bySignature(names, 3_000_000), faults);
    await run("signature, answers lost", (names) => bySignature(names, 2_000_000), [dropResponse({ when: isWrite })]);
    await run("expired signature", (names) => bySignature(names, -3_600_000), []);
    sinks.noteSpans(spans);
  });

  it("all helpers have worked where nothing was wrong, and failed where something was", () => {
    const allowed = ["optimisticUpdate throwing: Error", "runTransaction throwing: Error", "withLease throwing: Error", "deleteIfUnchanged: ConflictError", "schema: SchemaError", "broken JSON: SchemaError", "retryWhileInUse: RestError", "leasedUpdate throwing: Error", "broken file: SchemaError", "withLease file: Error"];
    for (const fine of ["key, no faults", "signature, no faults"]) {
      expect(outcomes[fine]!.filter((line) => !line.endsWith(": ok")).sort(), fine).toEqual(allowed.sort());
    }
    for (const failing of ["wrong key", "expired signature", "key, always busy"]) {
      expect(outcomes[failing]!.filter((line) => line.endsWith(": ok")), failing).toEqual([]);
    }
  });

  it("there is something to search in each place", () => {
    for (const where of ["log", "span optimisticUpdate", "span leasedUpdate", "span QueueConsumer.handle", "error of enqueue", "metadata", "inbox record", "event error"]) {
      expect(sinks.count(where), where).toBeGreaterThan(0);
    }
  });

  it("neither a key nor a signature is in spans, logs, errors, metadata or inbox records", () => {
    for (const [name, secret] of secrets) expect(sinks.find(secret), name).toEqual([]);
  });

  it("no shared-key header is in any of them", () => {
    expect(sinks.find(`SharedKey ${emulatorAccount.name}:`)).toEqual([]);
    expect(sinks.find(`SharedKeyLite ${emulatorAccount.name}:`)).toEqual([]);
  });

  it("no payload is in any of them", () => {
    expect(sinks.find(payload)).toEqual([]);
  });

  it("what a caller's own function confided in its error is in that error alone", () => {
    expect(sinks.find(confidence)).toEqual([]);
  });
});
