import { deepEqual } from "fast-equals";
import type { BlobCallOptions, ContainerLike, SignedIdentifierLike } from "../clients/blob.js";
import { isNotFound, isParentNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag, withMembers } from "../core/validate.js";
import { blobOptions } from "./blob-requests.js";
import { fromPrimary } from "./content.js";
import { metadataOf, propertyAdapter } from "./property-set.js";
import type { StringMap } from "./property-set.js";
import { leasedTargetOf } from "./target.js";
import type { LeasedTarget, RequestContext, ServiceAdapter } from "./target.js";

/**
 * The metadata of an existing container. Names are returned in lower case.
 *
 * The service does not enforce the lease of a container for this operation: it rejects a wrong lease id, but accepts a
 * request without one. If all writers use `leasedUpdate`, no update is lost. (A condition on the time of the last change does
 * not help: it has a resolution of one second, and only `ifModifiedSince` is accepted.)
 *
 * @example
 * ```ts
 * await leasedUpdate(containerMetadata(container), (metadata) => { metadata["owner"] = "billing"; });
 * ```
 * @throws `TypeError` if `container` is not a container client.
 */
export function containerMetadata(container: ContainerLike): LeasedTarget<Record<string, string>> {
  checkContainer(container, "containerMetadata");
  const url = redactUrl(container.url);
  const set = async (raw: StringMap, context: RequestContext): Promise<string> =>
    requireETag((await container.setMetadata(raw, blobOptions(context))).etag, url);
  return leasedTargetOf<StringMap, StringMap>({
    ...propertyAdapter("containerMetadata", container, "container"),
    requiresLease: true,
    journaled: false,
    encode: metadataOf,
    read: (context) =>
      undefinedIfNotFound(async () => {
        const response = await fromPrimary(container, context, container.getProperties(readOptions(context)));
        return { raw: { ...response.metadata }, etag: requireETag(response.etag, url), journal: undefined };
      }),
    write: async (_base, raw, _journal, context) => ({ raw, etag: await set(raw, context), journal: undefined }),
    overwrite: set,
  });
}

/** One stored access policy of {@link containerAccessPolicy}. What it leaves undefined is up to each SAS that refers to it. */
export interface StoredAccessPolicy {
  /** At most 64 characters; a SAS refers to it as its identifier. */
  id: string;
  /** From when on a SAS is valid. Undefined: from the time in the SAS, or at once. */
  startsOn?: Date | undefined;
  /** Until when a SAS is valid. Undefined: each SAS must have a time of its own. */
  expiresOn?: Date | undefined;
  /** What a SAS permits, for example `"rl"`. Undefined: each SAS must have permissions of its own. */
  permissions?: string | undefined;
}

/** The value of {@link containerAccessPolicy}: the anonymous access to a container, and its stored access policies. */
export interface ContainerAccessPolicy {
  /** What can be read without credentials: blobs, or also the list of blobs. Undefined: no anonymous access. */
  publicAccess?: "blob" | "container" | undefined;
  /** All stored policies: one that an update leaves out is removed. At most 5. */
  policies: StoredAccessPolicy[];
}

/**
 * The access policy of an existing container: public access and stored policies, which are written together. Times have
 * milliseconds. The lease has the same limits as for {@link containerMetadata}.
 *
 * @example
 * ```ts
 * const expiresOn = new Date(Date.now() + 86_400_000);
 * await leasedUpdate(containerAccessPolicy(container), ({ policies }) => {
 *   policies.push({ id: "readers", permissions: "rl", expiresOn });
 * });
 * ```
 * @throws `TypeError` if `container` is not a container client.
 */
export function containerAccessPolicy(container: ContainerLike): LeasedTarget<ContainerAccessPolicy> {
  checkContainer(container, "containerAccessPolicy");
  const url = redactUrl(container.url);
  type Value = ContainerAccessPolicy;
  const set = async (raw: Value, context: RequestContext): Promise<string> => {
    const response = await container.setAccessPolicy(raw.publicAccess, raw.policies.map(toIdentifier), blobOptions(context));
    return requireETag(response.etag, url);
  };
  const adapter: ServiceAdapter<Value, Value> & { readonly requiresLease: true } = {
    ...(propertyAdapter("containerAccessPolicy", container, "container") as unknown as ServiceAdapter<Value, Value>),
    requiresLease: true,
    journaled: false,
    decode: (raw) => structuredClone(raw),
    encode: policyOf,
    equals: deepEqual,
    read: (context) =>
      undefinedIfNotFound(async () => {
        const response = await fromPrimary(container, context, container.getAccessPolicy(readOptions(context)));
        const policies = response.signedIdentifiers.map(({ id, accessPolicy }) => ({ id, ...accessPolicy }));
        const raw = policyOf({ publicAccess: response.blobPublicAccess as Value["publicAccess"], policies });
        return { raw, etag: requireETag(response.etag, url), journal: undefined };
      }),
    write: async (_base, raw, _journal, context) => ({ raw, etag: await set(raw, context), journal: undefined }),
    overwrite: set,
  };
  return leasedTargetOf(adapter);
}

/** A private copy without undefined properties. Throws a `TypeError` or `RangeError` for an invalid value. */
function policyOf(value: ContainerAccessPolicy): ContainerAccessPolicy {
  const given = value as Partial<ContainerAccessPolicy> | null | undefined;
  if (!Array.isArray(given?.policies)) throw new TypeError("containerAccessPolicy: the value must be { publicAccess?, policies: [...] }.");
  if (given.policies.length > 5) throw new RangeError("A container has at most 5 stored access policies.");
  if (given.publicAccess !== undefined && !["blob", "container"].includes(given.publicAccess)) {
    throw new RangeError('publicAccess must be "blob", "container" or undefined.');
  }
  return { ...(given.publicAccess && { publicAccess: given.publicAccess }), policies: value.policies.map(checkPolicy) };
}

function checkPolicy({ id, startsOn, expiresOn, permissions }: StoredAccessPolicy): StoredAccessPolicy {
  if (typeof id !== "string" || id.length < 1 || id.length > 64) throw new RangeError("The id of a policy must have 1 to 64 characters.");
  for (const time of [startsOn, expiresOn]) {
    if (time !== undefined && !(time instanceof Date && !Number.isNaN(time.getTime()))) {
      throw new TypeError(`Policy ${JSON.stringify(id)}: startsOn and expiresOn must be valid dates.`);
    }
  }
  return {
    id,
    ...(startsOn && { startsOn: new Date(startsOn) }),
    ...(expiresOn && { expiresOn: new Date(expiresOn) }),
    ...(permissions && { permissions }),
  };
}

function toIdentifier({ id, ...policy }: StoredAccessPolicy): SignedIdentifierLike {
  return { id, accessPolicy: policy as SignedIdentifierLike["accessPolicy"] };
}

function checkContainer(container: ContainerLike, kind: string): void {
  if (typeof (container as Partial<ContainerLike> | null | undefined)?.setAccessPolicy !== "function") {
    throw new TypeError(`${kind} needs a ContainerClient.`);
  }
}

/** Without the lease id: a read does not need one, and the SDK would drop it. */
function readOptions(context: RequestContext): BlobCallOptions {
  return withMembers(blobOptions(context), { conditions: {} });
}

async function undefinedIfNotFound<R>(read: () => Promise<R>): Promise<R | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isNotFound(error) || isParentNotFound(error)) return undefined;
    throw error;
  }
}
