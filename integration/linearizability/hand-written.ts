import type { Input, Output } from "./history.js";
import { type CallOptions, type Library, type ObjectClients, perform, tokensOf, withToken } from "./operations.js";

/**
 * The library, except for updates: they are the loop that is commonly written on the plain SDK. It takes a 412 for a lost race,
 * even the one that its own write caused whose response was lost, and applies its change again.
 * An error that is not a conflict leaves its outcome unknown.
 */
export async function performByHand(library: Library, object: ObjectClients, input: Input, options: CallOptions): Promise<Output | undefined> {
  if (input.op !== "update" || object.kind !== "blob") return perform(library, object, input, options);
  const { blob } = object;
  for (;;) {
    const found = await readWhole(object);
    if (!found && !input.initial) return { kind: "not found" };
    const text = JSON.stringify({ tokens: withToken(found?.tokens ?? "", input.token) });
    try {
      await blob.upload(text, text.length, { conditions: found ? { ifMatch: found.etag } : { ifNoneMatch: "*" } });
      return { kind: "value", tokens: tokensOf(JSON.parse(text) as { tokens: string }), outcome: found ? "updated" : "created" };
    } catch (error) {
      // Without a response, it does not know either.
      if (![409, 412].includes((error as { statusCode?: number }).statusCode ?? 0)) return undefined;
    }
  }
}

async function readWhole({ blob }: Extract<ObjectClients, { kind: "blob" }>): Promise<{ tokens: string; etag: string } | undefined> {
  try {
    const response = await blob.download();
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.readableStreamBody ?? []) chunks.push(chunk as Uint8Array);
    return { ...(JSON.parse(Buffer.concat(chunks).toString()) as { tokens: string }), etag: response.etag ?? "" };
  } catch (error) {
    if ((error as { statusCode?: number }).statusCode === 404) return undefined;
    throw error;
  }
}
