/** The endpoints of a storage account, each without a trailing slash. */
export interface StorageEndpoints {
  /** The endpoint of the blob service, for example `http://127.0.0.1:10000/devstoreaccount1`. */
  readonly blobUrl: string;
  /** The endpoint of the queue service. */
  readonly queueUrl: string;
  /** The endpoint of the table service. */
  readonly tableUrl: string;
  /** Azurite has no file service: the endpoint of a {@link startFileShareServer}. */
  readonly fileUrl?: string | undefined;
}

const endpointNames = { blobUrl: "BlobEndpoint", queueUrl: "QueueEndpoint", tableUrl: "TableEndpoint", fileUrl: "FileEndpoint" } as const;

/** The account that every Azurite has. Its key is published in Microsoft's documentation: it is not a secret. */
export const emulatorAccount: { readonly name: string; readonly key: string } = Object.freeze({
  name: "devstoreaccount1",
  key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
});

/** The connection string of the emulator account at these endpoints. */
export function emulatorConnectionString(endpoints: StorageEndpoints): string {
  const account = `DefaultEndpointsProtocol=http;AccountName=${emulatorAccount.name};AccountKey=${emulatorAccount.key};`;
  return replaceEndpoints(account, endpoints);
}

/**
 * A copy of a connection string with other endpoints: inserts a fault proxy between an application under test, which is
 * configured by a connection string, and its storage account.
 *
 * @example
 * ```ts
 * const connectionString = replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url });
 * ```
 */
export function replaceEndpoints(connectionString: string, endpoints: Partial<StorageEndpoints>): string {
  const replacements = new Map<string, string>();
  for (const service of Object.keys(endpointNames) as (keyof StorageEndpoints)[]) {
    const url = endpoints[service];
    if (url !== undefined) replacements.set(endpointNames[service], url);
  }
  const kept = connectionString.split(";").filter((part) => part !== "" && !replacements.has(part.slice(0, part.indexOf("="))));
  const replaced = Array.from(replacements, ([name, url]) => `${name}=${url}`);
  return [...kept, ...replaced].map((part) => `${part};`).join("");
}
