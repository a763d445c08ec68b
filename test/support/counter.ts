import { tryLimitOf } from "../../src/core/request.js";
import { adapterOf, type RequestContext, type ServiceAdapter } from "../../src/target/target.js";
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

export function counterAdapter(blob: FakeBlockBlob): ServiceAdapter<Counter, string> {
  return adapterOf(jsonBlob(blob)) as ServiceAdapter<Counter, string>;
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
