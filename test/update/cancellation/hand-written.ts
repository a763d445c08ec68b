import type { Call, Clients } from "./calls.js";

/**
 * The loop that is commonly written on the plain SDK: it takes a 412 for a lost race, even the one that its own write caused whose
 * response was lost, and it takes every other error for proof that nothing was written.
 */
export async function addTokenByHand(call: Call, { list, mixed }: Clients): Promise<void> {
  const blob = call.place === "list" ? list : mixed;
  for (let attempt = 0; attempt < 20; attempt++) {
    try {
      const { etag, readableStreamBody } = await blob.download();
      const chunks: Uint8Array[] = [];
      for await (const chunk of (readableStreamBody ?? []) as AsyncIterable<Uint8Array>) chunks.push(chunk);
      const { tokens } = JSON.parse(Buffer.concat(chunks).toString()) as { tokens: string[] };
      const body = Buffer.from(JSON.stringify({ tokens: [...tokens, call.token] }));
      await blob.upload(body, body.length, { conditions: { ifMatch: etag! } });
      Object.assign(call, { outcome: "resolved", told: "updated" });
      return;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode === 412) continue;
      Object.assign(call, { outcome: "nothing written", told: String(error) });
      return;
    }
  }
  Object.assign(call, { outcome: "nothing written", told: "too many attempts" });
}
