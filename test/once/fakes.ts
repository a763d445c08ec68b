import { Once } from "../../src/index.js";
import type { OnceOptions } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

/** A service whose rows and responses have the time of the (fake) clock. */
export class ClockService extends FakeService {
  /** Whether responses have a Date header; a proxy may remove it. */
  tellsTime = true;
  /** How far the clock of the service is ahead of that of the processes. */
  aheadInMs = 0;

  override timestamp(): string {
    return new Date(Date.now() + this.aheadInMs).toISOString();
  }

  override date(): string | undefined {
    return this.tellsTime ? new Date(Date.now() + this.aheadInMs).toUTCString() : undefined;
  }
}

export interface FakeFleet {
  readonly service: ClockService;
  readonly table: FakeTransactionTable;
  /** A process of its own: shares nothing with the others but the service. */
  readonly process: (options?: OnceOptions) => Once;
  readonly rows: () => string[];
}

export function fakeFleet(): FakeFleet {
  const service = new ClockService();
  const table = new FakeTransactionTable(service);
  return {
    service,
    table,
    process: (options) => new Once(new FakeTransactionTable(service, { pipeline: {} }), options),
    rows: () => [...service.resources.keys()].map((key) => (JSON.parse(key) as string[])[2]!),
  };
}
