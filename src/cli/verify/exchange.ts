/** One call of an SDK, as seen on the wire. */
export interface Exchange {
  /** `201`, `412 ConditionNotMet`, or the name of an error that was thrown without a request. */
  readonly response: string;
  /** The ETag header of the response itself: what an SDK makes of it is another matter. */
  readonly etag: string | undefined;
  /** A header as it was sent. */
  readonly sent: (name: string) => string | undefined;
}

interface HeadersLike {
  get(name: string): string | undefined;
}

interface ResponseLike {
  readonly status: number;
  readonly headers: HeadersLike;
  readonly request: { readonly headers: HeadersLike };
}

/** What the calls of the blob, queue and file SDKs return: with a `_response`, though not all of their types say so. */
export type SdkResponse = object;

export async function exchange(call: () => Promise<SdkResponse>): Promise<Exchange> {
  try {
    return seen(((await call()) as { _response: ResponseLike })._response);
  } catch (error) {
    return rejected(error);
  }
}

export function seen({ status, headers, request }: ResponseLike): Exchange {
  const code = headers.get("x-ms-error-code");
  return {
    response: code === undefined ? String(status) : `${status} ${code}`,
    etag: headers.get("etag"),
    sent: (name) => request.headers.get(name),
  };
}

export function rejected(error: unknown): Exchange {
  const { response, name } = error as { response?: ResponseLike; name: string };
  // No response at all, or one that tells of the state of the service: nothing to compare.
  if (response === undefined ? name === "RestError" : response.status >= 500) throw error;
  if (response !== undefined) return seen(response);
  return { response: name, etag: undefined, sent: () => undefined };
}
