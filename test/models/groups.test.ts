import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { ClaimInbox, enqueue, QueueConsumer } from "../../src/index.js";
import type { MessageContext } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const groups = ["g", "h"];
const visibilityTimeoutInSeconds = 10;

interface Work {
  readonly takesInMs: number;
  readonly failures: number;
  readonly sequence: number;
  /** Of some messages it is too large for a message, and goes to a blob. */
  readonly filling: string;
}

/** What is drawn of the work of a message. */
interface Drawn extends Omit<Work, "sequence" | "filling"> {
  readonly isLarge: boolean;
}

/** Only its size matters. */
const fillingOf = (isLarge: boolean): string => (isLarge ? "x".repeat(66_000) : "");

/** Without a thread, whose end would be at another virtual time in each run. */
function hashAtOnce(): void {
  vi.spyOn(crypto.subtle, "digest").mockImplementation((_, data) => Promise.resolve(Uint8Array.from(createHash("sha256").update(data as Uint8Array).digest()).buffer));
}

/** The model is the list of messages of each group: one is worked on at a time, all are done, and with a sequence in its order. */
class Groups implements Scenario {
  readonly world: World;
  readonly #order: "any" | "sequence";
  readonly #shards: number;
  readonly #producer: SimProcess;
  readonly #consumers: { process: SimProcess; consumer: QueueConsumer<Work> }[] = [];
  readonly #sent = new Map<string, number>();
  readonly #sending: Promise<unknown>[] = [];
  /** The handlers at work that were not told to stop, by group. */
  readonly #atWork = new Map<string, string>();
  readonly #attempts = new Map<string, number>();
  readonly #violations: string[] = [];

  constructor(world: World, seed: number) {
    this.world = world;
    this.#order = seed % 2 === 0 ? "any" : "sequence";
    this.#shards = seed % 3 === 0 ? 3 : 1;
    this.#producer = world.newProcess();
    this.consume();
    this.consume();
  }

  send(group: string, { takesInMs, failures, isLarge }: Drawn): void {
    const sequence = (this.#sent.get(group) ?? 0) + 1;
    this.#sent.set(group, sequence);
    const payload: Work = { takesInMs, failures, sequence, filling: fillingOf(isLarge) };
    const options = { idempotencyKey: `${group}${sequence}`, group, sequence, overflow: this.#producer.container };
    // Until it is sent for sure, perhaps several times: a gap would stay for ever.
    const sendOnce = async (): Promise<void> => {
      for (;;) {
        try {
          await enqueue(this.#producer.queue("jobs"), payload, options);
          return;
        } catch {
          await this.world.time.sleep(1_000);
        }
      }
    };
    this.#sending.push(sendOnce());
  }

  consume(): void {
    const process = this.world.newProcess();
    const { order } = { order: this.#order };
    const inbox = new ClaimInbox(process.table("inbox"), { shards: this.#shards });
    const consumer = new QueueConsumer<Work>(process.queue("jobs"), (work, context) => this.#handle(work, context), {
      visibilityTimeoutInSeconds,
      maxAttempts: 1_000,
      maxDeliveries: 1_000,
      retryDelayInMs: 1_000,
      concurrency: 4,
      inbox,
      order,
      overflow: process.container,
    });
    // There is no poison queue: what should be moved to one stays, and is reported.
    consumer.on("error", (error) => {
      if (/cannot be moved to a poison queue/.test(String(error))) this.#violations.push(String(error));
    });
    this.#consumers.push({ process, consumer });
    void consumer.start().catch(() => undefined);
  }

  cutOff(n: number): void {
    this.#consumers[n % Math.max(1, this.#consumers.length)]?.process.cutOff();
  }

  stop(n: number): void {
    void this.#consumers[n % Math.max(1, this.#consumers.length)]?.consumer.stop();
  }

  async finish(): Promise<void> {
    this.world.networkConditions = calm;
    await Promise.all(this.#sending);
    this.consume();
    await this.world.time.sleep(61_000); // for the last straggler
    const { store } = this.#producer.queue("jobs");
    for (let polls = 0; store.size > 0; polls++) {
      if (polls > 400) throw new Error(`${store.size} messages are never done`);
      await this.world.time.sleep(5_000);
    }
    await this.world.time.sleep(5_000);
    expect(this.#violations).toEqual([]);
    for (const [group, last] of this.#sent) {
      for (let sequence = 1; sequence <= last; sequence++) expect(this.#isDone(group, sequence), `${group}${sequence} is done`).toBe(true);
      if (this.#order === "sequence") expect(this.#groupRow(group)?.value, `the last sequence of ${group}`).toEqual(last);
      else expect(this.#producer.table("inbox").rowKeys(this.#partitionOf(group)).filter((rowKey) => rowKey.startsWith("~asc~group!"))).toEqual([]);
    }
  }

  async #handle({ takesInMs, failures, sequence, filling }: Work, { idempotencyKey: key, group = "", signal }: MessageContext): Promise<void> {
    const other = this.#atWork.get(group);
    if (other !== undefined) this.#violations.push(`${key} was started while ${other} was at work`);
    if (filling !== "" && filling !== fillingOf(true)) this.#violations.push(`${key} has another payload`);
    if (this.#isDone(group, sequence)) this.#violations.push(`${key} was started although it was done`);
    if (this.#order === "sequence" && sequence > 1 && !this.#isDone(group, sequence - 1)) this.#violations.push(`${key} was started before its turn`);
    const attempt = (this.#attempts.get(key) ?? 0) + 1;
    this.#attempts.set(key, attempt);
    this.#atWork.set(group, key);
    let atWork = true;
    const leave = (): void => {
      if (atWork) this.#atWork.delete(group);
      atWork = false;
    };
    signal.addEventListener("abort", leave);
    try {
      await this.world.time.sleep(takesInMs);
      if (attempt <= failures) throw new Error("not yet");
    } finally {
      leave();
    }
  }

  /** By a search: the test does not know which shard a group has. */
  #partitionOf(group: string): string {
    const table = this.#producer.table("inbox");
    const partitions = this.#shards === 1 ? ["account:jobs"] : [0, 1, 2].map((i) => `account:jobs:${i}`);
    return partitions.find((partition) => table.rowKeys(partition).includes(`~asc~inbox!account:jobs!${group}1`)) ?? "none";
  }

  #isDone(group: string, sequence: number): boolean {
    return this.#producer.table("inbox").property("state", this.#partitionOf(group), `~asc~inbox!account:jobs!${group}${sequence}`)?.value === "done";
  }

  #groupRow(group: string): { readonly value: unknown } | undefined {
    return this.#producer.table("inbox").property("lastSequence", this.#partitionOf(group), `~asc~group!account:jobs!${group}`);
  }
}

class Send extends Step<Groups> {
  readonly group: string;
  readonly work: Drawn;
  readonly pauseInMs: number;

  constructor([group, work, pauseInMs]: [string, Drawn, number]) {
    super();
    this.group = group;
    this.work = work;
    this.pauseInMs = pauseInMs;
  }

  override act(scenario: Groups): void {
    scenario.send(this.group, this.work);
  }
}

/** A hot group: its messages wait in the consumers, and the group is handed over from one to the next. */
class Burst extends Step<Groups> {
  readonly group: string;
  readonly count: number;
  readonly work: Drawn;
  readonly pauseInMs: number;

  constructor([group, count, work, pauseInMs]: [string, number, Drawn, number]) {
    super();
    this.group = group;
    this.count = count;
    this.work = work;
    this.pauseInMs = pauseInMs;
  }

  override act(scenario: Groups): void {
    for (let i = 0; i < this.count; i++) scenario.send(this.group, i === 3 ? this.work : { ...this.work, failures: 0, isLarge: false });
  }
}

class Consume extends Step<Groups> {
  readonly pauseInMs = 0;

  override act(scenario: Groups): void {
    scenario.consume();
  }
}

class Stop extends Step<Groups> {
  readonly pauseInMs = 0;
  readonly consumer: number;

  constructor(consumer: number) {
    super();
    this.consumer = consumer;
  }

  override act(scenario: Groups): void {
    scenario.stop(this.consumer);
  }
}

const work = fc.record({ takesInMs: fc.constantFrom(0, 50, 3_000, 25_000), failures: fc.constantFrom(0, 0, 0, 1, 2), isLarge: fc.constantFrom(false, false, true) });
const send = fc.tuple(fc.constantFrom(...groups), work, pauses(10_000)).map((drawn) => new Send(drawn));
const quickWork = fc.record({ takesInMs: fc.constantFrom(0, 20, 700), failures: fc.constantFrom(0, 0, 0, 1), isLarge: fc.boolean() });
const burst = fc.tuple(fc.constantFrom(...groups), fc.integer({ min: 4, max: 12 }), quickWork, pauses(3_000)).map((drawn) => new Burst(drawn));

test("each message of a group is done, by one handler of the group at a time, and in its sequence if that is requested", { timeout: 300_000 }, async ({ onTestFinished }) => {
  hashAtOnce();
  onTestFinished(() => void vi.restoreAllMocks());
  await checkModel<Groups>(
    1_000,
    [
      send,
      send,
      send,
      burst,
      fc.constant(new Consume()),
      pauses(40_000).map((ms) => new Pause(ms)),
      fc.nat({ max: 3 }).map((n) => new CutOff(n)),
      fc.nat({ max: 3 }).map((n) => new Stop(n)),
    ],
    (world, seed) => new Groups(world, seed),
  );
});
