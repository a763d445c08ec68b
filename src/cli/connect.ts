import type { TableClient } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import type { ShareClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import type { Command } from "commander";
import { CommandError, exitCodes } from "./exit-codes.js";
import type { Printing } from "./print.js";
import type { Terminal } from "./terminal.js";

const variable = "AZURE_STORAGE_CONNECTION_STRING";

// A user waits for the result: fewer and shorter retries than in a service.
const retryOptions = { maxTries: 3, retryDelayInMs: 500, maxRetryDelayInMs: 2_000 };

/** Creates clients for the account that the option or the environment names. Each SDK is loaded when it is needed. */
export class Account {
  readonly #connectionString: string;

  constructor(given: string | undefined, terminal: Terminal) {
    const connectionString = given ?? terminal.env[variable];
    if (!connectionString) {
      throw new CommandError(exitCodes.usage, `no storage account: pass --connection-string, or set ${variable}`);
    }
    this.#connectionString = connectionString;
  }

  async container(name: string): Promise<ContainerClient> {
    const { ContainerClient } = await load("@azure/storage-blob", () => import("@azure/storage-blob"));
    return createClient(() => new ContainerClient(this.#connectionString, name, { retryOptions }));
  }

  async queue(name: string): Promise<QueueClient> {
    const { QueueClient } = await load("@azure/storage-queue", () => import("@azure/storage-queue"));
    return createClient(() => new QueueClient(this.#connectionString, name, { retryOptions }));
  }

  async share(name: string): Promise<ShareClient> {
    const { ShareClient } = await load("@azure/storage-file-share", () => import("@azure/storage-file-share"));
    return createClient(() => new ShareClient(this.#connectionString, name, { retryOptions }));
  }

  async table(name: string): Promise<TableClient> {
    const { TableClient } = await load("@azure/data-tables", () => import("@azure/data-tables"));
    return createClient(() =>
      TableClient.fromConnectionString(this.#connectionString, name, {
        // The emulator uses plain HTTP, as its connection string says.
        allowInsecureConnection: /=http:|UseDevelopmentStorage=true/i.test(this.#connectionString),
        retryOptions: { maxRetries: 2, retryDelayInMs: 500 },
      }),
    );
  }
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
    throw new CommandError(exitCodes.usage, "the connection string is not valid", { cause: error });
  }
}

/** Options that every command has. */
export interface GlobalOptions {
  connectionString?: string;
  json?: boolean;
}

/** The context of a command. */
export interface CommandContext extends Printing {
  readonly account: Account;
}

/** Global options may be given before or after the command. */
export function contextOf(terminal: Terminal, command: Command): CommandContext {
  const { connectionString, json } = command.optsWithGlobals<GlobalOptions>();
  return { terminal, json: json ?? false, account: new Account(connectionString, terminal) };
}
