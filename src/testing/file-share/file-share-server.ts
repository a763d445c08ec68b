import { checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { emulatorAccount } from "../connection-string.js";
import { HttpListener } from "./http-listener.js";
import { ServerClock } from "./server-clock.js";
import type { FileShareClock } from "./server-clock.js";
import { smbClientOf } from "./smb-client.js";
import type { SmbClient } from "./smb-client.js";
import { FileShareState } from "./state.js";

/** Options of {@link startFileShareServer}. */
export interface StartFileShareServerOptions {
  /**
   * The port of 127.0.0.1 to listen on.
   * @defaultValue 0: a free port
   */
  port?: number | undefined;

  /**
   * The name of the only account.
   * @defaultValue the account that Azurite has, so that one credential serves both
   */
  accountName?: string | undefined;

  /**
   * The key of the account, in base64. Requests with another one are rejected.
   * @defaultValue the published key of the account that Azurite has
   */
  accountKey?: string | undefined;
}

const optionNames: OptionNames<StartFileShareServerOptions> = { port: 1, accountName: 1, accountKey: 1 };

/** A running file-share server. */
export interface FileShareServer extends AsyncDisposable {
  /** For example `http://127.0.0.1:10004/devstoreaccount1`, without a trailing slash. */
  readonly url: string;
  /** The connection string of the account, with the endpoint of the file service only. */
  readonly connectionString: string;
  /** The name of the account. */
  readonly accountName: string;
  /** The key of the account, in base64. */
  readonly accountKey: string;

  /** The clock by which leases and SAS tokens expire. Runs with real time, and can be moved forward. */
  readonly clock: FileShareClock;

  /** Simulates an SMB client that has the shares mounted and blocks requests. */
  readonly smb: SmbClient;

  /** How many requests were received, including rejected ones. */
  readonly requests: number;

  /**
   * Cuts all connections and closes the port. All data is in memory and is lost. Idempotent.
   * @throws nothing: requests in flight are cut, too.
   */
  stop(): Promise<void>;
}

/**
 * Starts a server on 127.0.0.1 that implements the REST API of Azure Files, as far as `@azure/storage-file-share` uses it for
 * shares, directories, files and leases. Statuses, error codes, headers and lease rules are those that were recorded from the
 * service, or else documented. Each request is handled atomically, so that of conflicting requests exactly one succeeds.
 *
 * Not implemented; the response is 501, with the name of what is missing: share snapshots and soft delete; renaming directories and
 * setting their properties; copies from other accounts, put range from a URL; listing and closing handles; share statistics;
 * security descriptors (every file has the same permission key); NFS, symbolic and hard links; provisioned performance; service
 * properties; structured bodies (CRC64); stored access policies, user delegation, SAS with an IP range, token credentials, Shared Key Lite;
 * CORS; reading more than 1 GiB by one request.
 *
 * Not simulated: a share that was deleted can be created again at once; an expired share lease can be acquired at once; a copy has
 * ended when its response is sent; quotas, throttling, and the age of a Shared Key signature.
 *
 * The server does not keep the process from ending.
 *
 * @throws `Error` if another process listens on `port`.
 */
export async function startFileShareServer(options: StartFileShareServerOptions = {}): Promise<FileShareServer> {
  checkOptions("startFileShareServer", options, optionNames);
  const { port = 0, accountName = emulatorAccount.name, accountKey = emulatorAccount.key } = options;
  const clock = new ServerClock();
  const state = new FileShareState(clock);
  const listener = new HttpListener(state, { name: accountName, key: accountKey });
  await listener.listen(port);
  const { url } = listener;
  return {
    url,
    connectionString: `DefaultEndpointsProtocol=http;AccountName=${accountName};AccountKey=${accountKey};FileEndpoint=${url};`,
    accountName,
    accountKey,
    clock,
    smb: smbClientOf(state),
    get requests() {
      return listener.requests;
    },
    stop: () => listener.stop(),
    [Symbol.asyncDispose]: () => listener.stop(),
  };
}
