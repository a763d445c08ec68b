import fc from "fast-check";
import { expect, test } from "vitest";
import { ClaimInbox, CommitInbox, enqueue, QueueConsumer } from "../../src/index.js";
import type { CommitMessageContext, MessageContext } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const keys = ["a", "b"];
const visibilityTimeoutInSeconds = 10;

/** What a handler does with a key: how long it takes, and whether the first attempts fail. */
interface Work {
  readonly takesInMs: number;
  readonly failures: number;
}

type Mode = "claim" | "commit" | "transaction";

/**
 * The model is the set of keys that were sent: each is worked on by one at a time, and done once. With transactions, each adds one to a
 * sum, and sends a message to a second queue, whose consumers note that it has arrived.
 */
class Inboxes implements Scenario {
  readonly world: World;
  readonly #mode: Mode;
  readonly #producer: SimProcess;
  readonly #consumers: { process: SimProcess; consumer: Pick<QueueConsumer, "stop">; starting: Promise<unknown> }[] = [];
  readonly #sent = new Set<string>();
  /** A key stands for one payload: with another one, its message would be a mistake of the producer. */
  readonly #works = new Map<string, Work>();
  readonly #sending: Promise<unknown>[] = [];
  /** Handlers at work that were not told to stop, by key. */
  readonly #atWork = new Map<string, number>();
  readonly #attempts = new Map<string, number>();
  readonly #completed = new Map<string, number>();
  readonly #violations: string[] = [];

  constructor(world: World, seed: number) {
    this.world = world;
    this.#mode = (["claim", "commit", "transaction"] as const)[Math.abs(seed) % 3] ?? "claim";
    this.#producer = world.newProcess();
    this.consume();
    this.consume();
  }

  send(key: string, work: Work): void {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 30_000);
    const payload = this.#works.get(key) ?? work;
    this.#works.set(key, payload);
    const sent = enqueue(this.#producer.queue("jobs"), payload, { idempotencyKey: key, abortSignal: stop.signal });
    // A send without an answer may have made a message or not.
    this.#sending.push(sent.then(() => this.#sent.add(key), () => undefined));
  }

  consume(): void {
    const process = this.world.newProcess();
    const options = { visibilityTimeoutInSeconds, maxAttempts: 1_000, retryDelayInMs: 1_000, concurrency: 4 };
    const [queue, table] = [process.queue("jobs"), process.table("inbox")];
    const consumer =
      this.#mode === "claim"
        ? new QueueConsumer<Work>(queue, (work, context) => this.#handle(work, context, process), { ...options, inbox: new ClaimInbox(table) })
        : new QueueConsumer<Work>(queue, (work, context) => this.#handle(work, context, process), { ...options, inbox: new CommitInbox(table), partitionOf: () => "effects" });
    consumer.on("error", () => undefined).on("completed", ({ idempotencyKey: key }) => this.#completed.set(key, (this.#completed.get(key) ?? 0) + 1));
    this.#consumers.push({ process, consumer, starting: consumer.start().catch(() => undefined) });
    if (this.#mode === "transaction") this.#note(process, options);
  }

  /** The second consumer of a chain, in the same process. */
  #note(process: SimProcess, options: { visibilityTimeoutInSeconds: number; maxAttempts: number; retryDelayInMs: number; concurrency: number }): void {
    const inbox = new CommitInbox(process.table("inbox"));
    const note = (key: string, { commit }: CommitMessageContext): Promise<unknown> => commit([["create", { rowKey: `${key}-${crypto.randomUUID()}` }]]);
    const consumer = new QueueConsumer<string>(process.queue("notes"), note, { ...options, inbox, partitionOf: () => "arrived" });
    consumer.on("error", () => undefined).on("poisoned", ({ reason }) => this.#violations.push(`a note was poisoned: ${reason}`));
    this.#consumers.push({ process, consumer, starting: consumer.start().catch(() => undefined) });
  }

  cutOff(n: number): void {
    this.#consumers[n % Math.max(1, this.#consumers.length)]?.process.cutOff();
  }

  stop(n: number): void {
    void this.#consumers[n % Math.max(1, this.#consumers.length)]?.consumer.stop();
  }

  async finish(): Promise<void> {
    await Promise.all(this.#sending);
    this.world.networkConditions = calm;
    this.consume();
    await this.world.time.sleep(61_000); // for the last straggler
    const stores = ["jobs", "notes"].map((name) => this.#producer.queue(name).store);
    const left = (): number => stores.reduce((sum, { size }) => sum + size, 0);
    for (let polls = 0; left() > 0; polls++) {
      if (polls > 200) throw new Error(`${left()} messages are never done`);
      await this.world.time.sleep(5_000);
    }
    await this.world.time.sleep(5_000);
    expect(this.#violations).toEqual([]);
    if (this.#mode === "transaction") {
      const done = keys.filter((key) => this.#effects(key) === 1);
      expect(this.#producer.table("inbox").property("n", "effects", "sum")?.value ?? 0, "the sum").toBe(done.length);
      expect(keys.filter((key) => this.#effects(key, "arrived") === 1), "the messages that were sent").toEqual(done);
    }
    for (const key of this.#sent) {
      if (this.#mode !== "claim") expect(this.#effects(key), `effects of ${key}`).toBe(1);
      else expect(this.#record(key)?.value, `the record of ${key}`).toBe("done");
    }
    for (const key of keys) {
      if (this.#mode !== "claim") expect(this.#effects(key), `effects of ${key}`).toBeLessThanOrEqual(1);
      expect(this.#completed.get(key) ?? 0, `completions of ${key}`).toBeLessThanOrEqual(1);
      expect(this.#atWork.get(key) ?? 0).toBe(0);
    }
  }

  async #handle({ takesInMs, failures }: Work, context: MessageContext | CommitMessageContext, process: SimProcess): Promise<void> {
    const { idempotencyKey: key, signal } = context;
    if (this.#mode === "claim") {
      if (this.#record(key)?.value === "done") this.#violations.push(`${key} was started although it was done`);
      if ((this.#atWork.get(key) ?? 0) > 0) this.#violations.push(`${key} was started while another handler was at work on it`);
    }
    const attempt = (this.#attempts.get(key) ?? 0) + 1;
    this.#attempts.set(key, attempt);
    this.#count(key, 1);
    let atWork = true;
    const leave = (): void => {
      if (atWork) this.#count(key, -1);
      atWork = false;
    };
    signal.addEventListener("abort", leave);
    try {
      await this.world.time.sleep(takesInMs);
      if (attempt <= failures) throw new Error("not yet");
      if (this.#mode === "transaction" && "transaction" in context) await this.#transact(key, context, process);
      else if ("commit" in context) await context.commit([["create", { rowKey: `${key}-${crypto.randomUUID()}`, of: key }]]);
    } finally {
      leave();
    }
  }

  async #transact(key: string, { transaction }: CommitMessageContext, process: SimProcess): Promise<void> {
    const notes = process.queue("notes");
    await transaction(async (tx) => {
      const sum = await tx.get<{ n: number }>("sum");
      tx.upsert({ rowKey: "sum", n: (sum?.n ?? 0) + 1 });
      tx.create({ rowKey: `${key}-${crypto.randomUUID()}` });
      tx.send({ queue: notes, payload: key });
    });
  }

  #count(key: string, change: number): void {
    this.#atWork.set(key, (this.#atWork.get(key) ?? 0) + change);
  }

  #effects(key: string, partition = "effects"): number {
    const table = this.#producer.table("inbox");
    return table.rowKeys(partition).filter((rowKey) => rowKey.startsWith(`${key}-`)).length;
  }

  #record(key: string): { readonly value: unknown } | undefined {
    return this.#producer.table("inbox").property("state", "account:jobs", `~asc~inbox!account:jobs!${key}`);
  }
}

class Send extends Step<Inboxes> {
  readonly key: string;
  readonly work: Work;
  readonly pauseInMs: number;

  constructor([key, work, pauseInMs]: [string, Work, number]) {
    super();
    this.key = key;
    this.work = work;
    this.pauseInMs = pauseInMs;
  }

  override act(inboxes: Inboxes): void {
    inboxes.send(this.key, this.work);
  }
}

class Consume extends Step<Inboxes> {
  readonly pauseInMs = 0;

  override act(inboxes: Inboxes): void {
    inboxes.consume();
  }
}

class Stop extends Step<Inboxes> {
  readonly pauseInMs = 0;
  readonly consumer: number;

  constructor(consumer: number) {
    super();
    this.consumer = consumer;
  }

  override act(inboxes: Inboxes): void {
    inboxes.stop(this.consumer);
  }
}

const work = fc.record({ takesInMs: fc.constantFrom(0, 50, 3_000, 25_000), failures: fc.constantFrom(0, 0, 0, 1, 2) });
const send = fc.tuple(fc.constantFrom(...keys), work, pauses(10_000)).map((drawn) => new Send(drawn));

test("each key that was sent is done, by one handler at a time and once, whatever is delivered twice", { timeout: 300_000 }, async () => {
  await checkModel<Inboxes>(
    1_500,
    [
      send,
      send,
      send,
      fc.constant(new Consume()),
      fc.constant(new Consume()),
      pauses(40_000).map((ms) => new Pause(ms)),
      fc.nat({ max: 3 }).map((n) => new CutOff(n)),
      fc.nat({ max: 3 }).map((n) => new Stop(n)),
    ],
    (world, seed) => new Inboxes(world, seed),
  );
});
