import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { isConcurrencyError, runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;
const accounts = ["a", "b", "c"];
const opening = 100;
/** Written together and without being read: they are always equal. */
const stamps = ["stamp-left", "stamp-right"];

/**
 * `move`: takes from one account and gives to another. `withdraw`: takes from one account as long as all of them
 * together are not overdrawn, which two at a time must not find out on the same state. `audit`: adds them up.
 * `refuse`: takes from one account, and then throws. `stamp`: writes its number to both stamps before it reads anything.
 * `peek`: reads without validation, which must not influence what others read.
 */
type Deed =
  | { readonly kind: "move"; readonly from: string; readonly to: string; readonly amount: number }
  | { readonly kind: "withdraw" | "refuse"; readonly from: string; readonly amount: number }
  | { readonly kind: "audit" | "stamp" | "peek" };

/** How a function goes about it: reads row by row or together, and does other things for a while before it returns. */
interface Manner {
  readonly together: boolean;
  readonly lingerInMs: number;
  readonly timeoutInMs: number | undefined;
}

class Refusal extends Error {}

interface Account {
  readonly n: number;
}

interface Call {
  readonly id: number;
  readonly deed: Deed;
  readonly manner: Manner;
  /** Whether its function is running. */
  running: boolean;
  /** Its caller aborted it while its function was running: no write can have been sent. */
  abortedWhileRunning: boolean;
  /**
   * Whether the outcome may be unknown: of the writes since its function last ran, which alone can carry its changes, one went
   * wrong, or had no response yet when its caller was rejected.
   */
  unknownAllowed: () => boolean;
  outcome?: "done" | "not written" | "unknown" | "aborted";
  /** What it saw, and what it did. */
  saw?: readonly number[];
  /** What it saw in the stamps when its function last ran. */
  stampsDiffer?: boolean;
  took?: number;
}

/** The model is accounts whose sum changes by what was withdrawn alone; every deed leaves one receipt. */
class Bank implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #calls: Call[] = [];
  readonly #running: Promise<void>[] = [];

  constructor(world: World) {
    this.world = world;
    this.#processes = Array.from({ length: processes }, () => world.newProcess());
    const table = this.#processes[0]!.table("bank");
    for (const account of accounts) table.put({ n: { type: "Int32", value: opening } }, "p", account);
  }

  start(process: number, deed: Deed, manner: Manner, coalesce: boolean, abortAfterInMs: number | undefined): void {
    const at = this.#processes[process]!;
    const call: Call = { id: this.#calls.length, deed, manner, running: false, abortedWhileRunning: false, unknownAllowed: () => false };
    this.#calls.push(call);
    const stop = new AbortController();
    if (abortAfterInMs !== undefined) {
      setTimeout(() => {
        call.abortedWhileRunning = call.running && call.outcome === undefined;
        stop.abort();
      }, abortAfterInMs);
    }
    const run = async (tx: Transaction): Promise<{ saw: number[] | undefined; took: number }> => {
      call.running = true;
      try {
        return await this.#perform(at, tx, call);
      } finally {
        call.running = false;
      }
    };
    this.#running.push(
      runTransaction(at.table("bank"), "p", run, { coalesce, abortSignal: stop.signal, timeoutInMs: manner.timeoutInMs }).then(
        (value) => {
          call.outcome = "done";
          if (value.saw) call.saw = value.saw;
          call.took = value.took;
        },
        (error: unknown) => {
          if (isConcurrencyError(error, "COMMIT_UNKNOWN")) {
            expect(call.unknownAllowed(), "a CommitUnknownError, although all writes were answered").toBe(true);
            call.outcome = "unknown";
          } else if (error === stop.signal.reason) call.outcome = "aborted";
          else {
            if (error instanceof Refusal) expect(deed.kind).toBe("refuse");
            else if (!isConcurrencyError(error, "CONFLICT") && !isConcurrencyError(error, "OPERATION_TIMEOUT")) expect(error).toHaveProperty("name", "RestError");
            call.outcome = "not written";
          }
        },
      ),
    );
  }

  cutOff(process: number): void {
    this.#processes[process]!.cutOff();
  }

  async finish(): Promise<void> {
    await Promise.all(this.#running);
    this.world.networkConditions = calm;
    await this.world.time.sleep(61_000); // for the last straggler
    const receipts = this.#receipts();
    const changing = this.#calls.filter(({ deed }) => deed.kind !== "audit" && deed.kind !== "peek");
    for (const { id, outcome, took, abortedWhileRunning } of changing) {
      const receipt = receipts.get(id);
      if (outcome === "done") expect(receipt, `the receipt of ${id}`).toBe(took === 0 ? undefined : took);
      if (outcome === "not written") expect(receipt, `the receipt of ${id}, which failed`).toBeUndefined();
      if (outcome === "aborted" && abortedWhileRunning) expect(receipt, `the receipt of ${id}, which was aborted`).toBeUndefined();
    }
    const landed = changing.filter(({ id }) => receipts.has(id));
    expect(receipts.size).toBe(landed.length);
    for (const account of accounts) expect(this.#balance(account), `account ${account}`).toBe(this.#expected(account, landed, receipts));
    expect(accounts.reduce((sum, account) => sum + this.#balance(account), 0)).toBeGreaterThanOrEqual(0);
    this.#checkSnapshots();
    const [left, right] = stamps.map((stamp) => this.#balance(stamp));
    expect(left, "the stamps").toBe(right);
    const lastStamp = this.#calls.find(({ id }) => id === left);
    if (lastStamp) expect(receipts.has(lastStamp.id), "the receipt of the last stamp").toBe(true);
    counted.total += this.#calls.length;
    counted.unknown += this.#calls.filter(({ outcome }) => outcome === "unknown").length;
  }

  /** One after the other, with time in between: that it is one state is up to the transaction. */
  async #perform(at: SimProcess, tx: Transaction, call: Call): Promise<{ saw: number[] | undefined; took: number }> {
    const { id, deed, manner } = call;
    const validate = deed.kind !== "peek";
    if (deed.kind === "stamp") {
      for (const rowKey of stamps) tx.upsert({ rowKey, n: id });
      for (const stamp of stamps) expect((await tx.get<Account>(stamp))?.n, "its own write").toBe(id);
    }
    const read = async (account: string): Promise<number> => (await tx.get<Account>(account, { validate }))!.n;
    const saw: number[] = [];
    if (manner.together) saw.push(...(await tx.getMany<Account>(accounts, { validate })).map((row) => row!.n));
    else for (const account of accounts) saw.push(await read(account));
    if (manner.lingerInMs > 0) await this.world.time.sleep(manner.lingerInMs);
    if (deed.kind === "audit") {
      const [left, right] = await tx.getMany<Account>(stamps);
      call.stampsDiffer = left?.n !== right?.n;
    }
    let took = 0;
    if (deed.kind === "move" && deed.from !== deed.to) {
      took = deed.amount;
      tx.update({ rowKey: deed.from, n: (await read(deed.from)) - took });
      tx.update({ rowKey: deed.to, n: (await read(deed.to)) + took });
    } else if (deed.kind === "withdraw" && sum(saw) >= deed.amount) {
      took = deed.amount;
      tx.update({ rowKey: deed.from, n: (await read(deed.from)) - took });
    }
    if (deed.kind === "refuse") {
      tx.update({ rowKey: deed.from, n: (await read(deed.from)) - deed.amount });
      throw new Refusal();
    }
    if (deed.kind === "stamp") took = 1;
    // Not alone: a row that is only ever created cannot tell whether it was.
    if (took > 0) tx.create({ rowKey: `receipt-${id}`, n: took });
    call.unknownAllowed = at.watchWrites();
    return { saw: validate ? saw : undefined, took };
  }

  #expected(account: string, landed: readonly Call[], receipts: ReadonlyMap<number, number>): number {
    let balance = opening;
    for (const { id, deed } of landed) {
      if ("from" in deed && deed.from === account) balance -= receipts.get(id)!;
      if (deed.kind === "move" && deed.to === account) balance += receipts.get(id)!;
    }
    return balance;
  }

  /** What anybody saw is what was left after some of the withdrawals, and never less than nothing. */
  #checkSnapshots(): void {
    const withdrawn = this.#calls.flatMap(({ deed }) => (deed.kind === "withdraw" ? [deed.amount] : []));
    const sums = withdrawn.reduce((all, amount) => new Set([...all, ...[...all].map((total) => total - amount)]), new Set([opening * accounts.length]));
    for (const { id, saw, stampsDiffer } of this.#calls) {
      if (!saw) continue;
      expect(stampsDiffer ?? false, `whether the stamps that ${id} saw differ`).toBe(false);
      expect([...sums], `the sum that ${id} saw`).toContain(sum(saw));
      expect(sum(saw), `the sum that ${id} saw`).toBeGreaterThanOrEqual(0);
    }
  }

  #balance(account: string): number {
    return Number(this.#processes[0]!.table("bank").property("n", "p", account)?.value);
  }

  #receipts(): Map<number, number> {
    const table = this.#processes[0]!.table("bank");
    const rowKeys = table.rowKeys("p").filter((rowKey) => rowKey.startsWith("receipt-") && !table.property("asc_tombstone", "p", rowKey));
    return new Map(rowKeys.map((rowKey) => [Number(rowKey.slice("receipt-".length)), Number(table.property("n", "p", rowKey)?.value)]));
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}

class Transact extends Step<Bank> {
  readonly process: number;
  readonly deed: Deed;
  readonly manner: Manner;
  readonly coalesce: boolean;
  readonly abortAfterInMs: number | undefined;
  readonly pauseInMs: number;

  constructor([process, deed, manner, coalesce, abortAfterInMs, pauseInMs]: [number, Deed, Manner, boolean, number | undefined, number]) {
    super();
    this.process = process;
    this.deed = deed;
    this.manner = manner;
    this.coalesce = coalesce;
    this.abortAfterInMs = abortAfterInMs;
    this.pauseInMs = pauseInMs;
  }

  override act(bank: Bank): void {
    bank.start(this.process, this.deed, this.manner, this.coalesce, this.abortAfterInMs);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const account = fc.constantFrom(...accounts);
const deed: fc.Arbitrary<Deed> = fc.oneof(
  fc.record({ kind: fc.constant("move" as const), from: account, to: account, amount: fc.integer({ min: 1, max: 50 }) }),
  fc.record({ kind: fc.constant("withdraw" as const), from: account, amount: fc.constantFrom(90, 150, 200) }),
  fc.record({ kind: fc.constant("refuse" as const), from: account, amount: fc.constant(1_000) }),
  fc.record({ kind: fc.constantFrom("audit" as const, "peek" as const) }),
  fc.record({ kind: fc.constant("stamp" as const) }),
);
/** Aborts and deadlines are often so early that a read is pending. */
const early = fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 1, max: 60 }) }, fc.integer({ min: 1, max: 5_000 }));
const abort = fc.option(early, { nil: undefined, freq: 5 });
const manner: fc.Arbitrary<Manner> = fc.record({
  together: fc.boolean(),
  lingerInMs: fc.constantFrom(0, 0, 0, 30, 300, 1_500),
  timeoutInMs: fc.option(early, { nil: undefined, freq: 6 }),
});
// Shared most of the time: there is more that can go wrong.
const coalesce = fc.constantFrom(true, true, false);
const transact = fc.tuple(process_, deed, manner, coalesce, abort, pauses(20_000)).map((drawn) => new Transact(drawn));

const counted = { total: 0, unknown: 0 };

test("transactions of several processes move everything once, and see one state each", { timeout: 300_000 }, async () => {
  await checkModel<Bank>(
    2_000,
    [transact, transact, transact, transact, pauses(40_000).map((ms) => new Pause(ms)), process_.map((n) => new CutOff(n))],
    (world) => new Bank(world),
  );
});

afterAll(() => {
  // Else it would hold for a library that always shrugs.
  expect(counted.unknown / counted.total).toBeLessThan(0.03);
});
