import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { isConcurrencyError, jsonBlob, optimisticUpdate, tableEntity } from "../../src/index.js";
import type { UpdateResult } from "../../src/index.js";
import { calm } from "../simulation/storage/network-conditions.js";
import type { SimProcess, World } from "../simulation/storage/world.js";
import { checkModel, CutOff, Pause, pauses, Step } from "./check-model.js";
import type { Scenario } from "./check-model.js";

const processes = 3;

/** What a mutator does: adds its id to the list, leaves the list alone, or throws; at once or after a while. */
type Behaviour = "add" | "add slowly" | "keep" | "throw" | "throw slowly";

class Refusal extends Error {}

interface Call {
  readonly id: number;
  readonly behaviour: Behaviour;
  /** The ids of updates that had succeeded before it began. */
  readonly before: readonly number[];
  /**
   * Whether the outcome may be unknown: of the writes since its mutator last ran, which alone can carry its change, one went
   * wrong, or had no response yet when its caller was rejected.
   */
  unknownAllowed: () => boolean;
  seen?: readonly number[];
  outcome?: "done" | "not written" | "unknown" | "aborted";
}

/** The model is a list of ids; an update is correct if it is there once and every caller saw a part of the same history. */
class Updates implements Scenario {
  readonly world: World;
  readonly #processes: SimProcess[];
  readonly #kind: "blob" | "entity";
  readonly #calls: Call[] = [];
  readonly #running: Promise<void>[] = [];

  constructor(world: World, seed: number) {
    this.world = world;
    this.#kind = seed % 2 === 0 ? "blob" : "entity";
    this.#processes = Array.from({ length: processes }, () => world.newProcess());
  }

  start(process: number, behaviour: Behaviour, coalesce: boolean, abortAfterInMs: number | undefined): void {
    const at = this.#processes[process]!;
    const call: Call = {
      id: this.#calls.length,
      behaviour,
      before: this.#calls.filter(({ outcome }) => outcome === "done").flatMap(({ id, behaviour: b }) => (b.startsWith("add") ? [id] : [])),
      unknownAllowed: () => false,
    };
    this.#calls.push(call);
    const stop = new AbortController();
    if (abortAfterInMs !== undefined) setTimeout(() => stop.abort(), abortAfterInMs);
    const options = { coalesce, abortSignal: stop.signal };
    this.#running.push(
      this.#update(at, call, options).then(
        (result) => {
          call.outcome = "done";
          call.seen = result;
        },
        (error: unknown) => {
          call.outcome = this.#judge(error, stop.signal, call);
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
    const final = this.#stored();
    for (const call of this.#calls) this.#check(call, final);
    counted.total += this.#calls.length;
    counted.unknown += this.#calls.filter(({ outcome }) => outcome === "unknown").length;
    expect(final).toHaveLength(new Set(final).size);
  }

  async #update(at: SimProcess, call: Call, options: object): Promise<readonly number[]> {
    if (this.#kind === "blob") {
      const result: UpdateResult<{ ids: number[] }> = await optimisticUpdate(
        jsonBlob<{ ids: number[] }>(at.blob("list.json")),
        (doc) => this.#mutate(at, call, (id) => doc.ids.push(id)),
        { ...options, initial: { ids: [] } },
      );
      return result.value.ids;
    }
    const keys = { partitionKey: "p", rowKey: "list" };
    const { value } = await optimisticUpdate(
      tableEntity<{ ids: string }>(at.table("lists"), "p", "list"),
      (entity) => this.#mutate(at, call, (id) => (entity.ids += `${id} `)),
      { ...options, initial: { ids: "", ...keys } },
    );
    return parse(value.ids);
  }

  #mutate(at: SimProcess, call: Call, add: (id: number) => void): undefined | Promise<void> {
    const { id, behaviour } = call;
    const act = (): void => {
      call.unknownAllowed = at.watchWrites();
      if (behaviour.startsWith("throw")) {
        add(-1); // has to be rolled back
        throw new Refusal();
      }
      if (behaviour.startsWith("add")) add(id);
    };
    if (behaviour.endsWith("slowly")) return this.world.time.sleep(80).then(act);
    act();
    return undefined;
  }

  #judge(error: unknown, signal: AbortSignal, call: Call): NonNullable<Call["outcome"]> {
    if (isConcurrencyError(error, "COMMIT_UNKNOWN")) {
      expect(call.unknownAllowed(), "a CommitUnknownError, although all its writes were answered").toBe(true);
      return "unknown";
    }
    if (error === signal.reason) return "aborted";
    if (error instanceof Refusal) expect(call.behaviour).toMatch(/^throw/);
    // All else means by contract that nothing was written; what the service itself said is passed on.
    else if (!isConcurrencyError(error, "CONFLICT") && !isConcurrencyError(error, "OPERATION_TIMEOUT")) expect(error).toHaveProperty("name", "RestError");
    return "not written";
  }

  #check({ id, behaviour, before, seen, outcome }: Call, final: readonly number[]): void {
    const times = final.filter((other) => other === id).length;
    const adds = behaviour.startsWith("add");
    if (outcome === "done") {
      expect(times, `update ${id} succeeded`).toBe(adds ? 1 : 0);
      expect(behaviour).not.toMatch(/^throw/);
      expect(seen, `update ${id} saw a part of the history`).toEqual(final.slice(0, seen!.length));
      if (adds) expect(seen!.at(-1), `update ${id} got its own value`).toBe(id);
      for (const earlier of before) expect(seen, `update ${id} began after ${earlier} had ended`).toContain(earlier);
    } else if (outcome === "not written" || !adds) expect(times, `update ${id} failed`).toBe(0);
    else expect(times).toBeLessThanOrEqual(1);
  }

  #stored(): number[] {
    const process = this.#processes[0]!;
    if (this.#kind === "blob") return (process.blob("list.json").json as { ids: number[] } | undefined)?.ids ?? [];
    return parse(String(process.table("lists").property("ids", "p", "list")?.value ?? ""));
  }
}

function parse(ids: string): number[] {
  return ids.split(" ").flatMap((id) => (id === "" ? [] : [Number(id)]));
}

class Update extends Step<Updates> {
  readonly process: number;
  readonly behaviour: Behaviour;
  readonly coalesce: boolean;
  readonly abortAfterInMs: number | undefined;
  readonly pauseInMs: number;

  constructor([process, behaviour, coalesce, abortAfterInMs, pauseInMs]: [number, Behaviour, boolean, number | undefined, number]) {
    super();
    this.process = process;
    this.behaviour = behaviour;
    this.coalesce = coalesce;
    this.abortAfterInMs = abortAfterInMs;
    this.pauseInMs = pauseInMs;
  }

  override act(updates: Updates): void {
    updates.start(this.process, this.behaviour, this.coalesce, this.abortAfterInMs);
  }
}

const process_ = fc.nat({ max: processes - 1 });
const behaviour = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Behaviour>("add") },
  { weight: 3, arbitrary: fc.constantFrom<Behaviour>("add slowly", "keep", "throw", "throw slowly") },
);
const abort = fc.option(fc.integer({ min: 1, max: 5_000 }), { nil: undefined, freq: 8 });
const update = fc.tuple(process_, behaviour, fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, fc.constant(false)), abort, pauses(20_000)).map((drawn) => new Update(drawn));

const counted = { total: 0, unknown: 0 };

test("updates of several processes land once each, in one order that all callers agree on", { timeout: 300_000 }, async () => {
  await checkModel<Updates>(
    4_000,
    [update, update, update, update, pauses(40_000).map((ms) => new Pause(ms)), process_.map((n) => new CutOff(n))],
    (world, seed) => new Updates(world, seed),
  );
});

afterAll(() => {
  // Else it would hold for a library that always shrugs. The share of a single replayed case says nothing.
  if (process.env["MODEL_PATH"] === undefined) expect(counted.unknown / counted.total).toBeLessThan(0.03);
});
