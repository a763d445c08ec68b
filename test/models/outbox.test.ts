import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { isConcurrencyError, Outbox, runTransaction } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const partitions = ["p0", "p1"];
const relayAfterInMs = 5_000;

/** What the function of a transaction does besides: nothing, it throws, it has an operation id and is repeated, or it updates a hot row. */
type Manner = "create" | "throw" | "repeat" | "counter";

interface Drawn {
  readonly process: number;
  readonly partition: string;
  readonly manner: Manner;
  readonly onUnknown: "throw" | "retry";
  readonly durationInMs: number;
  readonly abortAfterInMs: number | undefined;
  readonly pauseInMs: number;
}

const counted = { orders: 0, done: 0, unknown: 0, messages: 0, distinct: 0 };

/** The model: the orders in the table. For each of them there is a message, with one key; and for nothing else. */
class Orders implements Scenario {
  readonly world: World;
  readonly #processes: { process: SimProcess; outbox: Outbox; starting: Promise<unknown> }[];
  readonly #running: Promise<unknown>[] = [];
  #ids = 0;

  constructor(world: World) {
    this.world = world;
    this.#processes = Array.from({ length: processes }, () => this.#newProcess());
    for (const partition of partitions) this.#processes[0]!.process.table("orders").put({ n: { type: "Int32", value: 0 } }, partition, "counter");
  }

  #newProcess(pollIntervalInMs = 2_000): { process: SimProcess; outbox: Outbox; starting: Promise<unknown> } {
    const process = this.world.newProcess();
    const outbox = new Outbox(process.table("orders"), { queues: [process.queue("jobs"), process.queue("mails")], relayAfterInMs, pollIntervalInMs });
    outbox.on("error", () => undefined);
    return { process, outbox, starting: outbox.start().catch(() => undefined) };
  }

  order({ process: n, partition, manner, onUnknown, durationInMs, abortAfterInMs }: Drawn): void {
    const { process, outbox } = this.#processes[n]!;
    const id = `order-${++this.#ids}`;
    const stop = new AbortController();
    if (abortAfterInMs !== undefined) setTimeout(() => stop.abort(), abortAfterInMs);
    const place = (): Promise<void> =>
      runTransaction(process.table("orders"), partition, async (tx) => {
        const counter = manner === "counter" ? ((await tx.get<{ n: number }>("counter"))?.n ?? 0) : undefined;
        if (counter !== undefined) tx.update({ rowKey: "counter", n: counter + 1 });
        // Applied twice, it would be two orders.
        const rowKey = manner === "repeat" ? id : `${id}-${crypto.randomUUID()}`;
        outbox.add(tx, process.queue("jobs"), rowKey);
        if (durationInMs > 0) await this.world.time.sleep(durationInMs);
        tx.upsert({ rowKey, total: 1 });
        outbox.add(tx, process.queue("mails"), rowKey);
        if (manner === "throw") throw new Error("thrown");
      }, { abortSignal: stop.signal, onUnknown, ...(manner === "repeat" && { operationId: id }) });
    const calls = manner === "repeat" ? [place(), place()] : [place()];
    counted.orders += calls.length;
    for (const call of calls) {
      this.#running.push(call.then(
        () => {
          counted.done++;
        },
        (error: unknown) => {
          if (isConcurrencyError(error, "COMMIT_UNKNOWN")) counted.unknown++;
        },
      )); // prettier-ignore
    }
  }

  restart(n: number): void {
    const { outbox } = this.#processes[n]!;
    this.#running.push(outbox.stop({ drainTimeoutInMs: 1_000 }).then(() => outbox.start()).catch(() => undefined));
  }

  cutOff(n: number): void {
    this.#processes[n]!.process.cutOff();
    // Its successor.
    this.#processes[n] = this.#newProcess();
  }

  async finish(): Promise<void> {
    await Promise.all(this.#running);
    this.world.networkConditions = calm;
    await this.world.time.sleep(61_000); // for the last straggler
    await Promise.all(this.#processes.map(async ({ outbox, starting }) => {
      await starting;
      await outbox.stop();
    })); // prettier-ignore
    const { process, outbox } = this.#newProcess(60_000);
    await this.world.time.sleep(2 * 3_600_000);
    await outbox.stop();
    const table = process.table("orders");
    const rows = partitions.flatMap((partition) => table.rowKeys(partition));
    const orders = rows.filter((rowKey) => rowKey.startsWith("order-")).sort();
    for (const queue of ["jobs", "mails"]) {
      const sent = process.queue(queue).store.receive(10_000, 0).map(({ messageText }) => openEnvelope(messageText, "text"));
      expect([...new Set(sent.map(({ body }) => body as string))].sort(), `the messages of ${queue}`).toEqual(orders);
      counted.messages += sent.length;
      counted.distinct += orders.length;
      // Each has one key, so that an inbox recognises what was sent twice.
      expect(new Set(sent.map(({ key, body }) => `${key} ${String(body)}`)).size, `the keys of ${queue}`).toBe(orders.length);
    }
    expect(rows.filter((rowKey) => rowKey.startsWith("~asc~outbox!"))).toEqual([]);
  }
}

class Order extends Step<Orders> {
  readonly drawn: Drawn;
  readonly pauseInMs: number;

  constructor(drawn: Drawn) {
    super();
    this.drawn = drawn;
    this.pauseInMs = drawn.pauseInMs;
  }

  override act(orders: Orders): void {
    orders.order(this.drawn);
  }
}

class Restart extends Step<Orders> {
  readonly pauseInMs = 0;
  readonly process: number;

  constructor(process: number) {
    super();
    this.process = process;
  }

  override act(orders: Orders): void {
    orders.restart(this.process);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const order = fc
  .record({
    process: process_,
    partition: fc.constantFrom(...partitions),
    manner: fc.constantFrom<Manner>("create", "create", "counter", "counter", "repeat", "throw"),
    onUnknown: fc.constantFrom<"throw" | "retry">("throw", "throw", "retry"),
    durationInMs: fc.constantFrom(0, 0, 10, 2_000),
    abortAfterInMs: fc.option(fc.integer({ min: 1, max: 3_000 }), { nil: undefined, freq: 5 }),
    pauseInMs: pauses(10_000),
  })
  .map((drawn) => new Order(drawn));

test("for each order that is committed, and for nothing else, a message arrives, with one key", { timeout: 300_000 }, async () => {
  await checkModel<Orders>(
    500,
    [order, order, order, order, pauses(20_000).map((ms) => new Pause(ms)), process_.map((n) => new Restart(n)), process_.map((n) => new CutOff(n))],
    (world) => new Orders(world),
  );
});

afterAll(() => {
  if (process.env["MODEL_RUNS"]) console.log(counted);
  // Else it would hold for a library that always gives up, or sends everything twice.
  expect(counted.done / counted.orders).toBeGreaterThan(0.3);
  expect(counted.messages / counted.distinct).toBeLessThan(2);
});
