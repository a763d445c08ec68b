import { jsonCodec } from "../../src/target/json.js";
import type { JsonDocument } from "../../src/target/json.js";
import { adapterOf } from "../../src/target/target.js";
import type { RequestContext, ServiceAdapter, Snapshot } from "../../src/target/target.js";
import { tryLimitOf } from "../../src/core/request.js";
import { jsonBlob } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";

export interface Counter {
  n: number;
  [name: string]: unknown;
}

export const increment = (doc: Counter): void => {
  doc.n++;
};

/** A JSON blob `{ n: 0 }` on a service of its own. */
export function counterBlob(): { service: FakeService; blob: FakeBlockBlob } {
  const service = new FakeService();
  const blob = new FakeBlockBlob(service);
  blob.put({ n: 0 });
  return { service, blob };
}

/** The adapter of the blob, with texts as the stored form. */
export function counterAdapter(blob: FakeBlockBlob): ServiceAdapter<Counter, string> {
  const adapter = adapterOf(jsonBlob(blob)) as ServiceAdapter<Counter, JsonDocument>;
  const document = (text: string): JsonDocument => jsonCodec.fromBytes(new TextEncoder().encode(text));
  const asText = (snapshot: Snapshot<JsonDocument>): Snapshot<string> => ({ ...snapshot, raw: snapshot.raw.text });
  const asDocument = (snapshot: Snapshot<string>): Snapshot<JsonDocument> => ({ ...snapshot, raw: document(snapshot.raw) });
  return {
    ...(adapter as unknown as ServiceAdapter<Counter, string>),
    decode: (raw) => adapter.decode(document(raw)),
    encode: (value, previous) => adapter.encode(value, previous === undefined ? undefined : document(previous)).text,
    equals: (a, b) => adapter.equals(document(a), document(b)),
    containsChange: (stored, draft, base) => adapter.containsChange!(document(stored), document(draft), document(base)),
    validate: undefined,
    read: async (context) => {
      const found = await adapter.read(context);
      return found && asText(found);
    },
    readIfChanged: async (etag, context) => {
      const found = await adapter.readIfChanged!(etag, context);
      return typeof found === "object" ? asText(found) : found;
    },
    write: async (base, raw, journal, context) => asText(await adapter.write(asDocument(base), document(raw), journal, context)),
    create: async (raw, journal, context) => asText(await adapter.create(document(raw), journal, context)),
    overwrite: (raw, context, how) => adapter.overwrite!(document(raw), context, how),
  };
}

export function requestContext(rest: Partial<RequestContext> = {}): RequestContext {
  return {
    abortSignal: new AbortController().signal,
    tryLimit: tryLimitOf(8_000),
    tracingOptions: undefined,
    leaseId: undefined,
    journalName: "asc_journal",
    ...rest,
  };
}
