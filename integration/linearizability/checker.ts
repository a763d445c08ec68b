/** One call of one client. Times are of a clock that all clients share. */
export interface Operation<I, O> {
  /** The process that made the call, and which of its callers. */
  readonly process: string;
  readonly input: I;
  /**
   * Undefined: the outcome is unknown. The process was killed, the caller aborted the call, or the call reported that it does
   * not know. Such an operation takes effect at any time after its invocation, or never.
   */
  readonly output: O | undefined;
  readonly invokedAt: number;
  /** `Infinity` if the outcome is unknown: a request that is still in flight may take effect after the call has ended. */
  readonly returnedAt: number;
}

/** What one object does when its operations run one after the other. */
export interface Model<S, I, O> {
  readonly initial: S;
  /**
   * The state after the operation; undefined: in this state, the operation does not return this output. Without an output, the
   * operation takes effect, whatever it would have returned.
   */
  step(state: S, input: I, output: O | undefined): S | undefined;
  /** States with the same key are the same state. */
  key(state: S): string;
  /** Whether an operation with this output changes nothing in any state. It may narrow down what is known of the state. */
  isRead(input: I, output: O): boolean;
  /** Operations without an output that have the same effect in every state have the same name. Absent: no two of them have. */
  effectOf?(input: I): string | undefined;
}

export type CheckResult =
  /** `order`: the operations in an order that explains all outputs. Operations that never took effect are left out. */
  | { readonly linearizable: true; readonly order: readonly number[] }
  /** `order`: the longest order that explains the outputs of the operations in it. */
  | { readonly linearizable: false; readonly order: readonly number[] };

/** A history that needs more than this is not decided. With a few calls at a time, a thousandth of it is enough. */
const maxConfigurations = 5_000_000;

/**
 * Whether there is an order of the operations that respects real time (an operation that returned before another one was
 * invoked comes first) and in which each operation returns what it returned. Wing and Gong's search: take any operation that no
 * other one must precede, apply it to the model, continue with the rest, and go back if an output is impossible. Lowe's
 * memoisation: operations done and state together determine what follows, so each such configuration is searched once.
 */
export function checkLinearizable<S, I, O>(model: Model<S, I, O>, history: readonly Operation<I, O>[]): CheckResult {
  return new Search(model, history).run();
}

/** An operation with its place in the history. */
interface Entry<I, O> {
  readonly index: number;
  readonly operation: Operation<I, O>;
  /** The place among the operations whose outcome is known, or unknown. */
  readonly position: number;
  /** 0 if the outcome is known; otherwise its bit in {@link Configuration.applied}. */
  readonly bit: bigint;
}

interface Configuration<S, I, O> {
  readonly state: S;
  /** All known operations before this one are done. */
  readonly low: number;
  /** Which of the operations with an unknown outcome have taken effect. */
  readonly applied: bigint;
  /** What led here; undefined at the start. */
  readonly entry: Entry<I, O> | undefined;
  /** What can come next, from the last to the first to try. */
  readonly candidates: Entry<I, O>[];
}

class Search<S, I, O> {
  readonly #model: Model<S, I, O>;
  /** Operations that must have taken effect, in the order of their invocations. */
  readonly #known: readonly Entry<I, O>[];
  /** Operations that may have taken effect. */
  readonly #unknown: readonly Entry<I, O>[];
  readonly #done: Uint8Array;
  #left: number;
  /** No operation from this one on has ever been done. */
  #high = 0;
  /** For each set of operations done and state: the sets of unknown operations with which it was reached. */
  readonly #visited = new Map<string, bigint[]>();
  readonly #stateIds = new Map<string, number>();
  #configurations = 0;

  constructor(model: Model<S, I, O>, history: readonly Operation<I, O>[]) {
    this.#model = model;
    const sorted = history
      .map((operation, index) => ({ operation, index }))
      .sort((a, b) => a.operation.invokedAt - b.operation.invokedAt);
    this.#known = sorted.filter(({ operation }) => operation.output !== undefined).map((entry, position) => ({ ...entry, position, bit: 0n }));
    this.#unknown = sorted.filter(({ operation }) => operation.output === undefined).map((entry, position) => ({ ...entry, position, bit: 1n << BigInt(position) }));
    this.#done = new Uint8Array(this.#known.length);
    this.#left = this.#known.length;
  }

  run(): CheckResult {
    const path = [this.#configuration(this.#model.initial, 0, 0n, undefined)];
    let longest: readonly number[] = [];
    for (;;) {
      if (this.#left === 0) return { linearizable: true, order: orderOf(path) };
      const at = path.at(-1);
      if (!at) return { linearizable: false, order: longest };
      const entry = at.candidates.pop();
      if (!entry) {
        if (path.length - 1 > longest.length) longest = orderOf(path);
        this.#undo(at);
        path.pop();
        continue;
      }
      const next = this.#apply(at, entry);
      if (next) path.push(next);
    }
  }

  #apply(at: Configuration<S, I, O>, entry: Entry<I, O>): Configuration<S, I, O> | undefined {
    const { input, output } = entry.operation;
    const state = this.#model.step(at.state, input, output);
    if (state === undefined) return undefined;
    const same = this.#model.key(state) === this.#model.key(at.state);
    if (output === undefined) {
      // Without an effect it may as well take effect later, or never.
      if (same) return undefined;
    } else {
      this.#done[entry.position] = 1;
      this.#high = Math.max(this.#high, entry.position + 1);
      this.#left--;
      // A read that fits here fits here in every order that has it later: there is no need to try others instead.
      if (same && this.#model.isRead(input, output)) at.candidates.length = 0;
    }
    let { low } = at;
    while (this.#done[low] === 1) low++;
    const applied = at.applied | entry.bit;
    if (this.#isKnown(low, applied, state)) {
      this.#undo({ entry });
      return undefined;
    }
    return this.#configuration(state, low, applied, entry);
  }

  #undo({ entry }: Pick<Configuration<S, I, O>, "entry">): void {
    if (!entry || entry.operation.output === undefined) return;
    this.#done[entry.position] = 0;
    this.#left++;
  }

  #configuration(state: S, low: number, applied: bigint, entry: Entry<I, O> | undefined): Configuration<S, I, O> {
    if (++this.#configurations > maxConfigurations) throw new Error(`undecided after ${maxConfigurations} configurations`);
    const candidates: Entry<I, O>[] = [];
    // An operation must wait for those that returned before it was invoked.
    let firstReturn = Infinity;
    for (let i = low; i < this.#known.length; i++) {
      const other = this.#known[i];
      if (!other || other.operation.invokedAt > firstReturn) break;
      if (this.#done[i] === 1) continue;
      firstReturn = Math.min(firstReturn, other.operation.returnedAt);
      candidates.push(other);
    }
    const possible = candidates.filter(({ operation }) => operation.invokedAt <= firstReturn).sort((a, b) => b.operation.returnedAt - a.operation.returnedAt);
    const optional = this.#optional(applied, firstReturn);
    // From the end: known operations first, and of those the one that returned first.
    return { state, low, applied, entry, candidates: [...optional.reverse(), ...possible] };
  }

  /**
   * The operations with an unknown outcome that may take effect now. Of those with the same effect only the first: the others
   * can take effect later just as well.
   */
  #optional(applied: bigint, firstReturn: number): Entry<I, O>[] {
    const effects = new Set<string>();
    return this.#unknown.filter(({ operation, bit }) => {
      if ((applied & bit) !== 0n || operation.invokedAt > firstReturn) return false;
      const effect = this.#model.effectOf?.(operation.input);
      if (effect === undefined) return true;
      const isFirst = !effects.has(effect);
      effects.add(effect);
      return isFirst;
    });
  }

  /**
   * Whether the same was reached with the same unknown operations, or with fewer of them: those that have not taken effect yet
   * still can, so that having more of them left is never worse.
   */
  #isKnown(low: number, applied: bigint, state: S): boolean {
    let key = `${this.#stateId(state)} ${low}`;
    for (let i = low + 1; i < this.#high; i++) if (this.#done[i] === 1) key += ` ${i}`;
    const seen = this.#visited.get(key);
    if (!seen) {
      this.#visited.set(key, [applied]);
      return false;
    }
    if (seen.some((fewer) => (fewer & applied) === fewer)) return true;
    seen.push(applied);
    return false;
  }

  /** A small number for a state: configurations are kept in the thousands. */
  #stateId(state: S): number {
    const key = this.#model.key(state);
    let id = this.#stateIds.get(key);
    if (id === undefined) this.#stateIds.set(key, (id = this.#stateIds.size));
    return id;
  }
}

function orderOf<S, I, O>(path: readonly Configuration<S, I, O>[]): number[] {
  return path.flatMap(({ entry }) => (entry ? [entry.index] : []));
}
