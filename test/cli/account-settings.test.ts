import { describe, expect, it } from "vitest";

import { AccountSettings } from "../../src/cli/account-settings.js";
import { CommandError } from "../../src/cli/exit-codes.js";
import { run } from "../../src/cli/run.js";
import { FakeTerminal } from "./fake-terminal.js";

const withKey = "DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey=c2VjcmV0==;EndpointSuffix=core.windows.net";

function errorOf(...args: ConstructorParameters<typeof AccountSettings>): CommandError {
  try {
    new AccountSettings(...args);
  } catch (error) {
    if (error instanceof CommandError) return error;
  }
  throw new Error("no CommandError");
}

describe("the account", () => {
  it("is the one of the connection string, with its key", () => {
    const settings = new AccountSettings({ connectionString: withKey }, {});
    expect(settings.connectionString).toBe(withKey);
    expect(settings.hasKey).toBe(true);
    expect(settings.setting("AccountKey")).toBe("c2VjcmV0==");
  });

  it("is that of an option rather than that of a variable, and a connection string rather than a name", () => {
    const env = { AZURE_STORAGE_CONNECTION_STRING: withKey, AZURE_STORAGE_ACCOUNT: "fabrikam" };
    expect(new AccountSettings({}, env).connectionString).toBe(withKey);
    const named = new AccountSettings({ account: "adventure" }, env);
    expect(named.connectionString).toBeUndefined();
    expect(named.hasKey).toBe(false);
    expect(named.endpoint("table")).toBe("https://adventure.table.core.windows.net");
    expect(new AccountSettings({}, { AZURE_STORAGE_ACCOUNT: "fabrikam" }).endpoint("blob")).toBe("https://fabrikam.blob.core.windows.net");
    expect(new AccountSettings({ connectionString: withKey }, { AZURE_STORAGE_ACCOUNT: "fabrikam" }).connectionString).toBe(withKey);
  });

  it("has the endpoints of another cloud", () => {
    expect(new AccountSettings({ account: "contoso", endpointSuffix: "core.chinacloudapi.cn" }, {}).endpoint("queue")).toBe("https://contoso.queue.core.chinacloudapi.cn");
  });

  it("has the endpoints of a connection string without a key and SAS, for Entra ID", () => {
    const settings = new AccountSettings({ connectionString: "blobendpoint=https://blobs.contoso.com/; QueueEndpoint=https://queues.contoso.com" }, {});
    expect(settings.connectionString).toBeUndefined();
    expect(settings.endpoint("blob")).toBe("https://blobs.contoso.com");
    expect(settings.endpoint("queue")).toBe("https://queues.contoso.com");
    expect(() => settings.endpoint("file")).toThrow(/neither a key or SAS nor an endpoint of the file service/);
  });

  it.each(["SharedAccessSignature=sv=2024&sig=x", "UseDevelopmentStorage=true"])("needs no token with %s", (signs) => {
    const connectionString = `BlobEndpoint=https://contoso.blob.core.windows.net;${signs}`;
    expect(new AccountSettings({ connectionString }, {}).connectionString).toBe(connectionString);
  });

  it.each([
    ["both options", { connectionString: withKey, account: "contoso" }, /either --connection-string or --account/],
    ["nothing", {}, /--account.*--connection-string.*AZURE_STORAGE_ACCOUNT.*AZURE_STORAGE_CONNECTION_STRING/],
    ["an empty name", { account: "" }, /no storage account/],
    ["a URL", { account: "https://contoso.blob.core.windows.net" }, /3 to 24 lowercase letters and digits/],
    ["a name that would be another host", { account: "evil.example/" }, /3 to 24/],
    ["a suffix that is none", { account: "contoso", endpointSuffix: "evil/x" }, /domain name/],
    ["a suffix without a name", { connectionString: withKey, endpointSuffix: "core.windows.net" }, /belongs to --account/],
    ["nonsense", { connectionString: "secret" }, /^the connection string is not valid$/],
    ["an endpoint that is no URL", { connectionString: "BlobEndpoint=secret" }, /^the connection string is not valid$/],
  ])("is not named by %s: a usage error, without the secret", (_, flags, message) => {
    const error = errorOf(flags, {});
    expect(error.exitCode).toBe(2);
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain("secret");
  });
});

describe("errors of Entra ID", () => {
  class Refusing extends FakeTerminal {
    readonly error: Error;

    constructor(error: Error) {
      super({ env: { AZURE_STORAGE_ACCOUNT: "contoso" }, answers: ["y"] });
      this.error = error;
    }

    override ask(): Promise<string> {
      return Promise.reject(this.error);
    }
  }

  // The first thing that `overflow purge` waits for is the user.
  const failWith = async (error: Error): Promise<string> => {
    const terminal = new Refusing(error);
    expect(await run(["overflow", "purge", "payloads"], terminal)).toBe(1);
    return terminal.stderr;
  };

  it("are one sentence that says how to sign in", async () => {
    const tried = ["EnvironmentCredential is unavailable.\nMore.", "az: command not found"].map((message) => Object.assign(new Error(message), { name: "CredentialUnavailableError" }));
    const message = await failWith(Object.assign(new Error("ChainedTokenCredential authentication failed.\nMany lines."), { name: "AggregateAuthenticationError", errors: tried }));
    expect(message).toContain("az login");
    expect(message.trimEnd()).not.toContain("\n");
    expect(message).not.toContain("unavailable");
  });

  it("name the reason if a credential was there and was rejected", async () => {
    const rejected = Object.assign(new Error("AADSTS7000215: Invalid client secret provided.\nTrace ID: 1"), { name: "AuthenticationError" });
    const missing = Object.assign(new Error("az: command not found"), { name: "CredentialUnavailableError" });
    const message = await failWith(Object.assign(new Error("failed"), { name: "AggregateAuthenticationError", errors: [rejected, missing] }));
    expect(message).toContain("AADSTS7000215: Invalid client secret provided.");
    expect(message).not.toContain("Trace ID");
  });

  it("name the role that is missing", async () => {
    const error = Object.assign(new Error("This request is not authorized to perform this operation using this permission.\nRequestId:1"), { name: "RestError", statusCode: 403, code: "AuthorizationPermissionMismatch" });
    expect(await failWith(error)).toContain("Storage Blob Data Contributor");
  });
});
