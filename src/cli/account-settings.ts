import { CommandError, exitCodes } from "./exit-codes.js";
import { services } from "./verify/service.js";
import type { Service } from "./verify/service.js";

/** The options that name the account. Global: each command has them. */
export interface AccountFlags {
  readonly connectionString?: string;
  readonly account?: string;
  readonly endpointSuffix?: string;
}

export const variables = { connectionString: "AZURE_STORAGE_CONNECTION_STRING", account: "AZURE_STORAGE_ACCOUNT" } as const;

type Environment = Readonly<Record<string, string | undefined>>;

type Setting = "AccountName" | "AccountKey" | "SharedAccessSignature" | "UseDevelopmentStorage" | `${"Blob" | "Table" | "Queue" | "File"}Endpoint`;

/** Which account, and how to sign in. */
export class AccountSettings {
  /** Undefined: with Entra ID, at the endpoints. */
  readonly connectionString: string | undefined;
  readonly #parts: ReadonlyMap<string, string>;
  readonly #account: string | undefined;
  readonly #endpointSuffix: string;

  /** @throws {@link CommandError} if nothing names the account, or the options contradict each other. */
  constructor(flags: AccountFlags, env: Environment) {
    if (flags.connectionString !== undefined && flags.account !== undefined) throw usage("pass either --connection-string or --account");
    // An option on the command line is more specific than any variable.
    const connectionString = flags.connectionString ?? (flags.account === undefined ? env[variables.connectionString] : undefined);
    this.#account = connectionString ? undefined : (flags.account ?? env[variables.account]);
    if (!connectionString && !this.#account) {
      throw usage(`no storage account: pass --account (Entra ID) or --connection-string, or set ${variables.account} or ${variables.connectionString}`);
    }
    // It becomes part of a host name, to which a token is sent.
    if (this.#account !== undefined && !/^[a-z0-9]{3,24}$/.test(this.#account)) throw usage("the name of a storage account has 3 to 24 lowercase letters and digits");
    this.#endpointSuffix = flags.endpointSuffix ?? "core.windows.net";
    if (!/^[a-z0-9-]+(\.[a-z0-9-]+)+$/i.test(this.#endpointSuffix)) throw usage("--endpoint-suffix must be a domain name, such as core.windows.net");
    if (flags.endpointSuffix !== undefined && this.#account === undefined) throw usage("--endpoint-suffix belongs to --account");
    this.#parts = partsOf(connectionString ?? "");
    const signs = (["AccountKey", "SharedAccessSignature", "UseDevelopmentStorage"] as const).some((name) => this.setting(name) !== undefined);
    this.connectionString = signs ? connectionString : undefined;
    if (!signs && connectionString && !services.some((service) => this.#endpointOf(service) !== undefined)) throw notValid();
  }

  /** Whether it can sign a SAS: the connection string has the account key, or means the emulator. */
  get hasKey(): boolean {
    return this.setting("AccountKey") !== undefined || this.setting("UseDevelopmentStorage") !== undefined;
  }

  /** For people. A connection string may leave it out. */
  get name(): string {
    return this.#account ?? this.setting("AccountName") ?? (this.setting("UseDevelopmentStorage") === undefined ? "storage account" : "devstoreaccount1");
  }

  /** The value of a setting in the connection string. */
  setting(name: Setting): string | undefined {
    return this.#parts.get(name.toLowerCase());
  }

  /** The URL of a service, for Entra ID. */
  endpoint(service: Service): string {
    const endpoint = this.#endpointOf(service);
    if (endpoint === undefined) throw usage(`the connection string has neither a key or SAS nor an endpoint of the ${service} service`);
    return endpoint;
  }

  #endpointOf(service: Service): string | undefined {
    if (this.#account !== undefined) return `https://${this.#account}.${service}.${this.#endpointSuffix}`;
    const given = this.setting(`${service.charAt(0).toUpperCase()}${service.slice(1)}Endpoint` as Setting)?.replace(/\/+$/, "");
    if (given !== undefined && !URL.canParse(given)) throw notValid();
    return given;
  }
}

/** The error does not repeat the connection string, which may be a secret. */
export function notValid(cause?: unknown): CommandError {
  return new CommandError(exitCodes.usage, "the connection string is not valid", { cause });
}

function usage(message: string): CommandError {
  return new CommandError(exitCodes.usage, message);
}

/** Values contain "=", and names are in any case. */
function partsOf(connectionString: string): ReadonlyMap<string, string> {
  const parts = new Map<string, string>();
  for (const part of connectionString.split(";")) {
    const [name = "", ...value] = part.trim().split("=");
    if (value.length > 0) parts.set(name.toLowerCase(), value.join("="));
  }
  return parts;
}
