import { randomUUID } from "node:crypto";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { startAzurite } from "./azurite.js";
import { replaceEndpoints } from "./connection-string.js";
import type { StorageEndpoints } from "./connection-string.js";
import { startFaultProxy } from "./fault-proxy.js";
import type { FaultProxy } from "./fault-proxy.js";
import type { FaultRule } from "./fault-rule.js";
import { startFileShareServer } from "./file-share/file-share-server.js";

/** A client class of an SDK whose constructor takes a connection string and a name: `ContainerClient`, `QueueClient`, `ShareClient`. */
export type TestClientClass<C> = new (connectionString: string, name: string) => C;

/** `TableClient`. */
export interface TestTableClass<T> {
  /** Creates the client of a table. */
  fromConnectionString(connectionString: string, tableName: string, options: { allowInsecureConnection: boolean }): T;
}

/**
 * The classes of the SDKs whose clients a test gets. The library imports no SDK: pass those that you have installed.
 */
export interface TestClientClasses<C, T, Q, S> {
  /**
   * `ContainerClient` of `@azure/storage-blob`.
   * @defaultValue none: the test gets no container
   */
  container?: TestClientClass<C> | undefined;
  /**
   * `TableClient` of `@azure/data-tables`.
   * @defaultValue none: the test gets no table
   */
  table?: TestTableClass<T> | undefined;
  /**
   * `QueueClient` of `@azure/storage-queue`.
   * @defaultValue none: the test gets no queue
   */
  queue?: TestClientClass<Q> | undefined;
  /**
   * `ShareClient` of `@azure/storage-file-share`.
   * @defaultValue none: the test gets no share
   */
  share?: TestClientClass<S> | undefined;
}

const classNames: OptionNames<TestClientClasses<unknown, unknown, unknown, unknown>> = { container: 1, table: 1, queue: 1, share: 1 };

/** The storage of one test: a container, a table, a queue and a share that no other test has, behind fault proxies. */
export interface TestStorage<C = undefined, T = undefined, Q = undefined, S = undefined> extends AsyncDisposable {
  /** The name of the container, the table, the queue and the share. */
  readonly name: string;
  /** A new container; undefined if no class was given. */
  readonly container: C;
  /** A new table; undefined if no class was given. */
  readonly table: T;
  /** A new queue; undefined if no class was given. */
  readonly queue: Q;
  /** A new share; undefined if no class was given. */
  readonly share: S;
  /** For clients that the code under test creates: all four services, through the proxies. */
  readonly connectionString: string;
  /** The same services without the proxies: requests are neither disturbed nor counted. */
  readonly directConnectionString: string;
  /** The proxy of each service, for rules that concern one of them, and for its log. */
  readonly proxies: Readonly<Record<"blob" | "table" | "queue" | "file", FaultProxy>>;

  /**
   * Sets these rules for all services, and none if there are none. Each proxy counts `times` by itself.
   * @throws `TypeError` or `RangeError` if a rule is wrong.
   */
  setFaults(...rules: readonly FaultRule[]): void;

  /**
   * Checks how many requests were sent since the beginning of the test, or since the last call.
   * @throws `Error` with a list of the requests if there were more or fewer.
   */
  expectRequests(expected: number): void;

  /**
   * Deletes what was created, and stops the proxies. Idempotent.
   * @throws nothing: what cannot be deleted ends with the run.
   */
  stop(): Promise<void>;
}

/** Tells the workers of a run where its storage is. Set by {@link startTestRun} for processes that are started later. */
const variable = "AZURE_STORAGE_CONCURRENCY_TEST_RUN";

interface RunStorage extends StorageEndpoints {
  readonly fileUrl: string;
  readonly connectionString: string;
}

/**
 * Starts an Azurite and a file-share server for a whole run of tests: call it in the global setup of the test runner, and the function
 * that it returns in the teardown. Processes that the runner starts afterwards find them by an environment variable.
 *
 * @throws {@link AzuriteStartError} if Azurite cannot be started.
 *
 * @example
 * ```ts
 * export default startTestRun; // in a file that vitest.config.ts names as globalSetup
 * ```
 */
export async function startTestRun(): Promise<() => Promise<void>> {
  const { storage, stop } = await startServers();
  process.env[variable] = JSON.stringify(storage);
  return async () => {
    process.env[variable] = "";
    await stop();
  };
}

async function startServers(): Promise<{ storage: RunStorage; stop: () => Promise<void> }> {
  const [azurite, files] = await Promise.all([startAzurite(), startFileShareServer()]);
  const { blobUrl, tableUrl, queueUrl } = azurite;
  const endpoints = { blobUrl, tableUrl, queueUrl, fileUrl: files.url };
  const connectionString = replaceEndpoints(azurite.connectionString, endpoints);
  const stop = async (): Promise<void> => {
    await Promise.all([azurite.stop(), files.stop()]);
  };
  return { storage: { ...endpoints, connectionString }, stop };
}

/** Without a global setup, each process has servers of its own. They end with it. */
let ownServers: Promise<{ storage: RunStorage }> | undefined;

async function storageOfRun(): Promise<RunStorage> {
  const provided = process.env[variable];
  if (provided) return JSON.parse(provided) as RunStorage;
  ownServers ??= startServers();
  return (await ownServers).storage;
}

/**
 * Creates the storage of one test: a container, a table, a queue and a share with a name that no other test has, on the Azurite of
 * the run ({@link startTestRun}), or else on one that all tests of this process share. For Vitest, see {@link createStorageFixture}.
 *
 * @throws {@link AzuriteStartError} if Azurite cannot be started; `TypeError` for an unknown class.
 */
export async function openTestStorage<C = undefined, T = undefined, Q = undefined, S = undefined>(
  classes: TestClientClasses<C, T, Q, S> = {},
): Promise<TestStorage<C, T, Q, S>> {
  checkOptions("openTestStorage", classes, classNames);
  const { connectionString: directConnectionString, blobUrl, tableUrl, queueUrl, fileUrl } = await storageOfRun();
  const [blob, table, queue, file] = await Promise.all([startFaultProxy(blobUrl), startFaultProxy(tableUrl), startFaultProxy(queueUrl), startFaultProxy(fileUrl)]);
  const proxies = { blob, table, queue, file };
  const all = Object.values(proxies);
  const connectionString = replaceEndpoints(directConnectionString, { blobUrl: blob.url, tableUrl: table.url, queueUrl: queue.url, fileUrl: file.url });
  const name = `t${randomUUID().replaceAll("-", "")}`;
  const clientsOf = (storage: string): { container: C; table: T; queue: Q; share: S } => ({
    container: (classes.container && new classes.container(storage, name)) as C,
    table: classes.table?.fromConnectionString(storage, name, { allowInsecureConnection: true }) as T,
    queue: (classes.queue && new classes.queue(storage, name)) as Q,
    share: (classes.share && new classes.share(storage, name)) as S,
  });
  const direct = clientsOf(directConnectionString);
  try {
    await Promise.all(Object.values(direct).map((client) => call(client, "create", "createTable")));
  } catch (error) {
    await Promise.all(all.map((proxy) => proxy.stop()));
    throw error;
  }

  let counted = 0;
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopping ??= (async () => {
      await Promise.all(all.map((proxy) => proxy.stop()));
      await Promise.allSettled(Object.values(direct).map((client) => call(client, "delete", "deleteTable")));
    })());
  return {
    ...clientsOf(connectionString),
    name,
    connectionString,
    directConnectionString,
    proxies,
    setFaults: (...rules) => {
      for (const proxy of all) proxy.setRules(rules);
    },
    expectRequests: (expected) => {
      const sent = all.reduce((sum, proxy) => sum + proxy.requests, 0);
      const before = counted;
      counted = sent;
      if (sent - before !== expected) throw new Error(`expected ${expected} requests, but ${sent - before} were sent; the latest of each service:\n${listOf(all)}`);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function listOf(proxies: readonly FaultProxy[]): string {
  return proxies.flatMap(({ log }) => log.slice(-20).map(({ method, path, status }) => `  ${method} ${path} ${status}`)).join("\n");
}

/** Calls the first of the methods that the client of a service has. */
async function call(client: unknown, ...methods: readonly ["create", "createTable"] | readonly ["delete", "deleteTable"]): Promise<void> {
  const members = client as Partial<Record<string, () => Promise<unknown>>> | undefined;
  const method = methods.find((name) => members?.[name] !== undefined);
  if (method !== undefined) await members?.[method]?.();
}

/** What {@link createStorageFixture} returns: an argument of Vitest's `test.extend`. */
export interface StorageFixture<C, T, Q, S> {
  /**
   * Creates the storage of a test before it, and removes it after it.
   * @throws {@link AzuriteStartError} if Azurite cannot be started; the test then fails with it.
   */
  readonly storage: (context: object, use: (storage: TestStorage<C, T, Q, S>) => Promise<void>) => Promise<void>;
}

/**
 * A fixture for Vitest: each test that uses `storage` gets a {@link TestStorage} of its own. The library does not import Vitest.
 *
 * @throws `TypeError` for an unknown class.
 *
 * @example
 * ```ts
 * const test = base.extend(createStorageFixture({ container: ContainerClient }));
 * test("counts requests", async ({ storage }) => {
 *   await storage.container.exists();
 *   storage.expectRequests(1);
 * });
 * ```
 */
export function createStorageFixture<C = undefined, T = undefined, Q = undefined, S = undefined>(
  classes: TestClientClasses<C, T, Q, S> = {},
): StorageFixture<C, T, Q, S> {
  checkOptions("createStorageFixture", classes, classNames);
  return {
    // Vitest reads from the pattern which other fixtures it needs: none.
    storage: async ({}, use) => {
      const storage = await openTestStorage(classes);
      try {
        await use(storage);
      } finally {
        await storage.stop();
      }
    },
  };
}
