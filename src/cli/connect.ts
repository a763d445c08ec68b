import type { TableClient, TableServiceClient } from "@azure/data-tables";
import type { TokenCredential } from "@azure/identity";
import type { BlobServiceClient, ContainerClient } from "@azure/storage-blob";
import type { ShareClient, ShareServiceClient } from "@azure/storage-file-share";
import type { QueueClient, QueueServiceClient } from "@azure/storage-queue";
import type { Command } from "commander";
import { AccountSettings, notValid } from "./account-settings.js";
import type { AccountFlags } from "./account-settings.js";
import { CommandError, exitCodes } from "./exit-codes.js";
import type { Printing } from "./print.js";
import type { Terminal } from "./terminal.js";

/** How clients behave. */
export interface AccountOptions {
  /** How often the SDKs send a request at most. @defaultValue 3: a user waits for the result, so fewer and sooner than in a service */
  readonly tries?: number | undefined;
}

/** Creates clients for the account that the options or the environment name. Each SDK is loaded when it is needed. */
export class Account {
  readonly settings: AccountSettings;
  readonly #options: { readonly retryOptions: { readonly maxTries: number; readonly retryDelayInMs: number; readonly maxRetryDelayInMs: number } };
  readonly #tableOptions: { readonly allowInsecureConnection: boolean; readonly retryOptions: { readonly maxRetries: number; readonly retryDelayInMs: number } };
  /** One for all services: a token is asked for once. */
  #credential: Promise<TokenCredential> | undefined;

  constructor(flags: AccountFlags, terminal: Terminal, { tries = 3 }: AccountOptions = {}) {
    this.settings = new AccountSettings(flags, terminal.env);
    this.#options = { retryOptions: { maxTries: tries, retryDelayInMs: 500, maxRetryDelayInMs: 2_000 } };
    this.#tableOptions = {
      // The emulator uses plain HTTP, as its connection string says.
      allowInsecureConnection: /=http:|UseDevelopmentStorage=true/i.test(this.settings.connectionString ?? ""),
      retryOptions: { maxRetries: tries - 1, retryDelayInMs: 500 },
    };
  }

  async container(name: string): Promise<ContainerClient> {
    return (await this.blobService()).getContainerClient(name);
  }

  async queue(name: string): Promise<QueueClient> {
    return (await this.queueService()).getQueueClient(name);
  }

  async share(name: string): Promise<ShareClient> {
    return (await this.shareService()).getShareClient(name);
  }

  async table(name: string): Promise<TableClient> {
    const { TableClient } = await load("@azure/data-tables", () => import("@azure/data-tables"));
    return this.#create({
      byString: (connectionString) => TableClient.fromConnectionString(connectionString, name, this.#tableOptions),
      byToken: (credential) => new TableClient(this.settings.endpoint("table"), name, credential, this.#tableOptions),
    });
  }

  async blobService(): Promise<BlobServiceClient> {
    const { BlobServiceClient } = await load("@azure/storage-blob", () => import("@azure/storage-blob"));
    return this.#create({
      byString: (connectionString) => BlobServiceClient.fromConnectionString(connectionString, this.#options),
      byToken: (credential) => new BlobServiceClient(this.settings.endpoint("blob"), credential, this.#options),
    });
  }

  async queueService(): Promise<QueueServiceClient> {
    const { QueueServiceClient } = await load("@azure/storage-queue", () => import("@azure/storage-queue"));
    return this.#create({
      byString: (connectionString) => QueueServiceClient.fromConnectionString(connectionString, this.#options),
      byToken: (credential) => new QueueServiceClient(this.settings.endpoint("queue"), credential, this.#options),
    });
  }

  async shareService(): Promise<ShareServiceClient> {
    const { ShareServiceClient } = await load("@azure/storage-file-share", () => import("@azure/storage-file-share"));
    return this.#create({
      byString: (connectionString) => ShareServiceClient.fromConnectionString(connectionString, this.#options),
      // The service rejects tokens for files without an intent. There is no other one.
      byToken: (credential) => new ShareServiceClient(this.settings.endpoint("file"), credential, { ...this.#options, fileRequestIntent: "backup" }),
    });
  }

  async tableService(): Promise<TableServiceClient> {
    const { TableServiceClient } = await load("@azure/data-tables", () => import("@azure/data-tables"));
    return this.#create({
      byString: (connectionString) => TableServiceClient.fromConnectionString(connectionString, this.#tableOptions),
      byToken: (credential) => new TableServiceClient(this.settings.endpoint("table"), credential, this.#tableOptions),
    });
  }

  async #create<T>({ byString, byToken }: { byString: (connectionString: string) => T; byToken: (credential: TokenCredential) => T }): Promise<T> {
    const { connectionString } = this.settings;
    if (connectionString !== undefined) return createClient(() => byString(connectionString));
    this.#credential ??= defaultCredential();
    return byToken(await this.#credential);
  }
}

async function defaultCredential(): Promise<TokenCredential> {
  const { DefaultAzureCredential } = await load("@azure/identity", () => import("@azure/identity"));
  return new DefaultAzureCredential();
}

async function load<T>(name: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new CommandError(exitCodes.failed, `this command needs the package ${name}: npm install ${name}`, { cause: error });
  }
}

// The SDK's error is not shown: its message may contain the connection string.
function createClient<T>(create: () => T): T {
  try {
    return create();
  } catch (error) {
    throw notValid(error);
  }
}

/** Options that every command has. */
export interface GlobalOptions extends AccountFlags {
  readonly json?: boolean;
}

/** The context of a command. */
export interface CommandContext extends Printing {
  readonly account: Account;
}

/** Global options may be given before or after the command. */
export function contextOf(terminal: Terminal, command: Command, options?: AccountOptions): CommandContext {
  const { json, ...flags } = command.optsWithGlobals<GlobalOptions>();
  return { terminal, json: json ?? false, account: new Account(flags, terminal, options) };
}
