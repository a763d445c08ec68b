import { SecondaryReadError } from "../core/request.js";
import { discardBody } from "./content.js";
import type { RequestContext } from "./target.js";

/** What the SDKs keep of a request: with a response, and with an error. */
interface Sent {
  readonly _response?: { readonly request?: { readonly url?: unknown } | undefined } | undefined;
  readonly request?: { readonly url?: unknown } | undefined;
}

/**
 * The response to a read that decides what is written, or whether a write was committed. With `retryOptions.secondaryHost`, the SDK sends
 * every other try of a read to the secondary, which may lag behind by minutes: its state proves nothing.
 */
export async function fromPrimary<R extends object>(client: { readonly url: string }, context: RequestContext, response: Promise<R>): Promise<R> {
  if (!context.primaryOnly) return response;
  try {
    const received = await response;
    requirePrimary(client, received, () => discardBody(received));
    return received;
  } catch (error) {
    if (!(error instanceof SecondaryReadError)) requirePrimary(client, error);
    throw error;
  }
}

function requirePrimary(client: { readonly url: string }, answer: unknown, discard?: () => void): void {
  const { _response, request } = answer as Sent;
  const url = _response?.request?.url ?? request?.url;
  // A client that does not tell where it read has no secondary.
  if (typeof url !== "string" || new URL(url).hostname === new URL(client.url).hostname) return;
  discard?.();
  throw new SecondaryReadError("The response is from the secondary, which may be outdated.");
}
