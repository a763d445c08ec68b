import { deepEqual } from "fast-equals";
import type { LeasableLike } from "../clients/leasable.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { redactUrl } from "../core/telemetry.js";
import { blobStaleETag } from "./blob-requests.js";
import { hasProperties } from "./content.js";
import { readOnlyReason, requireClient } from "./target.js";
import type { ServiceAdapter } from "./target.js";
import { quotedText } from "../errors.js";

/** Shared by targets that are a set of strings: metadata, HTTP headers, tags. */

export type StringMap = Record<string, string>;

/**
 * The HTTP headers that can be set: the value of {@link blobHttpHeaders} and {@link fileHttpHeaders}. They are written together: a
 * header that is undefined is cleared.
 */
export interface HttpHeaders {
  /** The media type, for example `"application/json"`. */
  contentType?: string | undefined;
  /** How caches may store the content, for example `"max-age=3600"`. */
  cacheControl?: string | undefined;
  /** How the stored bytes are compressed, for example `"gzip"`. Readers decode them; the service does not. */
  contentEncoding?: string | undefined;
  /** The language of the content, for example `"en"`. */
  contentLanguage?: string | undefined;
  /** Whether browsers show or save the content, and under which name, for example `'attachment; filename="report.pdf"'`. */
  contentDisposition?: string | undefined;
}

interface PropertyAdapter
  extends Pick<
    ServiceAdapter<StringMap, StringMap>,
    "kind" | "url" | "credentialScope" | "key" | "readOnly" | "leasable" | "staleETag" | "notFoundAdvice" | "decode" | "equals" | "create" | "delete"
  > {
  readonly validate: undefined;
}

/** The common part of their adapters. They cannot be created or deleted: the resource that they belong to has to exist. */
export function propertyAdapter(kind: string, client: { readonly url: string }, what: string): PropertyAdapter {
  requireClient(kind, client, `a ${what} client`);
  const url = redactUrl(client.url);
  return {
    kind,
    url,
    credentialScope: credentialScopeOf(client),
    key: JSON.stringify([kind, client.url]),
    leasable: client as LeasableLike,
    ...readOnlyReason(client),
    staleETag: blobStaleETag,
    notFoundAdvice: `create the ${what} first`,
    decode: (raw) => ({ ...raw }),
    equals: deepEqual,
    validate: undefined,
    create: () => Promise.reject(new TypeError(`${kind}: ${url} does not exist. Create the ${what} first.`)),
    delete: () => Promise.reject(new TypeError(`${kind} cannot be deleted: return an empty value, or delete the ${what}.`)),
  };
}

/** Metadata in the form in which they are sent. Throws a `TypeError` for invalid ones. */
export function metadataOf(value: unknown): StringMap {
  return lowerCaseNames(checkMetadata(stringValues(value, "metadata")));
}

const headerNames = ["contentType", "cacheControl", "contentEncoding", "contentLanguage", "contentDisposition"] as const;

/** HTTP headers in the form in which they are sent. Throws a `TypeError` for invalid ones. */
export function httpHeadersOf(value: unknown): StringMap {
  const headers = headerValues(stringValues(value, "HTTP header"), "HTTP header");
  for (const name of Object.keys(headers)) {
    if (!(headerNames as readonly string[]).includes(name)) {
      throw new TypeError(`${name} is not a header that can be set. Possible are: ${headerNames.join(", ")}.`);
    }
  }
  return headers;
}

/** The headers of a response that can be set. */
export function pickHttpHeaders(response: HttpHeaders): StringMap {
  return Object.fromEntries(headerNames.flatMap((name) => (response[name] ? [[name, response[name]]] : [])));
}

/** The values are sent as HTTP headers: other characters would be cut off, changed or never sent. */
function headerValues(values: StringMap, what: string): StringMap {
  for (const [name, value] of Object.entries(values)) {
    if (!/^[\x20-\x7e]*$/.test(value) || value.trim() !== value) {
      throw new TypeError(`The ${what} ${quotedText(name)} must be printable ASCII without leading or trailing spaces: encode it, for example with encodeURIComponent.`);
    }
  }
  return values;
}

const metadataName = /^[A-Za-z_][A-Za-z0-9_]*$/;

function checkMetadata(metadata: StringMap): StringMap {
  for (const name of Object.keys(metadata)) {
    // The SDK reads metadata into an object: what is assigned to __proto__ is lost.
    if (!metadataName.test(name) || name === "__proto__") throw new TypeError(`${quotedText(name)} is not a metadata name: it must consist of letters, digits and _.`);
  }
  return headerValues(metadata, "metadata");
}

/** As a reader gets them. Otherwise the next mutator of a batch could see two names that the service treats as one. */
function lowerCaseNames(metadata: StringMap): StringMap {
  const lowered = new Map<string, string>();
  for (const [name, value] of Object.entries(metadata)) {
    const lower = name.toLowerCase();
    if (lowered.has(lower) && lowered.get(lower) !== value) {
      throw new TypeError(`The metadata name ${quotedText(name)} has two values: the service ignores the case of names. Use ${quotedText(lower)}.`);
    }
    lowered.set(lower, value);
  }
  return Object.fromEntries(lowered);
}

/** A private copy that contains strings only, without the properties that are undefined. */
export function stringValues(value: unknown, what: string): StringMap {
  if (!hasProperties(value)) throw new TypeError(`The ${what} must be an object of strings.`);
  const entries: [string, string][] = [];
  for (const [name, v] of Object.entries(value)) {
    if (v === undefined) continue;
    if (typeof v !== "string") throw new TypeError(`The ${what} ${quotedText(name)} must be a string, not ${typeof v}.`);
    entries.push([name, v]);
  }
  return Object.fromEntries(entries);
}
